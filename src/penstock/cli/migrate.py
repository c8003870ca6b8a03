"""`penstock migrate`: the schema, up and down.

Exit codes: 0 done, 1 refused by the server (nothing was changed), 4 the
database is away, 5 the schema is not of this code's version, 6 refused
without --yes or because an application still stands on the engine.
"""

from __future__ import annotations

import sys
from io import StringIO
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.common import Json, print_json, print_table
from penstock.cli.exits import OUTDATED, REFUSED, USAGE, fail, told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from penstock.store.migrate import Line, SchemaState

app = typer.Typer(name="migrate", help="The schema of the database, up and down.", no_args_is_help=True)

Sql = Annotated[
    bool,
    typer.Option(
        "--sql",
        help="Write the statements instead of running them. No database is asked: say FROM:TO, with --line.",
    ),
]
LineName = Annotated[str | None, typer.Option("--line", help="Only this line of versions, such as engine.")]
Patience = Annotated[
    float, typer.Option("--lock-timeout", min=0.05, max=3600, help="Seconds to wait for the locks of other sessions.")
]


@app.command()
def up(
    revision: Annotated[
        str, typer.Argument(help="The version to reach; with --sql also FROM:TO, else from base.")
    ] = "head",
    *,
    sql: Sql = False,
    line: LineName = None,
    lock_timeout: Patience = 5.0,
    as_json: Json = False,
) -> None:
    """Bring the schema up to the version that this Penstock needs, all or nothing."""
    from penstock.store import migrate

    with told():
        chosen = _chosen(line, revision, default="head")
        if sql:
            typer.echo(_written(lambda out: migrate.upgrade_sql(out, revision, to=chosen)))
            return
        dsn = _owner_dsn()
        before = migrate.status(dsn, chosen)
        _refuse_newer(before)
        _refuse_without_engine(dsn, chosen)
        migrate.upgrade(dsn, revision, to=chosen, lock_timeout=lock_timeout)
        _tell_change(before, migrate.status(dsn, chosen), as_json=as_json)


@app.command()
def down(
    revision: Annotated[
        str,
        typer.Argument(
            help="The version to go back to; `base` removes everything of the line, or of all lines without --line. "
            "With --sql also FROM:TO, else from the newest."
        ),
    ],
    *,
    sql: Sql = False,
    line: LineName = None,
    lock_timeout: Patience = 5.0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: the data of the removed tables is lost.")] = False,
    as_json: Json = False,
) -> None:
    """Take the schema back, all or nothing. Roles belong to the cluster and stay."""
    from penstock.store import migrate

    with told():
        name = line or (None if revision == "base" else migrate.ENGINE.name)
        chosen = _chosen(name, revision, default="base")
        if sql:
            typer.echo(_written(lambda out: migrate.downgrade_sql(out, revision, of=chosen)))
            return
        dsn = _owner_dsn()
        before = migrate.status(dsn, chosen)
        _refuse_newer(before)
        _refuse_under_applications(dsn, chosen)
        # A line that is not there would get its schema and its version table, only to be taken back to nothing.
        there = [which for which, state in zip(chosen, before, strict=True) if state.current is not None]
        if there and not yes:
            _ask(revision, " and ".join(which.name for which in there))
        if there:
            migrate.downgrade(dsn, revision, of=there, lock_timeout=lock_timeout)
        _tell_change(before, migrate.status(dsn, chosen), as_json=as_json)


@app.command()
def status(*, as_json: Json = False) -> None:
    """Compare the schema with what this Penstock needs; exit code 5 when they differ."""
    from penstock.store import migrate

    with told():
        found = migrate.status(_owner_dsn(), migrate.lines())
        rows = [_row(state) for state in found]
        if as_json:
            print_json(rows)
        else:
            print_table(rows, ["line", "current", "head", "state"])
        if not all(state.up_to_date for state in found):
            if not as_json:
                typer.echo("Run `penstock migrate up` as the owner of the schema.", err=True)
            raise typer.Exit(OUTDATED)


def _chosen(line: str | None, revision: str, *, default: str) -> Sequence[Line]:
    """The lines that a command is about; one version names a point of one line only."""
    from penstock.store import migrate

    known = {found.name: found for found in migrate.lines()}
    if line is None:
        if len(known) > 1 and revision != default:
            fail(f"{revision} is a version of one line; add --line with one of {', '.join(known)}.", USAGE)
        return list(known.values())
    if line not in known:
        fail(f"There is no line {line!r}; there is {', '.join(known)}.", USAGE)
    return [known[line]]


def _written(write: Callable[[TextIO], None]) -> str:
    """All of it or nothing: half a script must never reach a pipe."""
    output = StringIO()
    write(output)
    return output.getvalue()


def _owner_dsn() -> str:
    """The DSN given, or the owner's on the embedded server."""
    from penstock.settings import load_settings

    settings = load_settings()
    if settings.dsn is not None:
        return settings.dsn
    from penstock.embedded import ensure_started

    return ensure_started(settings.home).url()


def _refuse_newer(found: Sequence[SchemaState]) -> None:
    for state in found:
        if state.newer:
            fail(
                f"The schema of {state.line} is of version {state.current}, which this Penstock does not know "
                f"(it knows up to {state.head}); use the newer Penstock. Nothing was changed.",
                OUTDATED,
            )


def _refuse_without_engine(dsn: str, chosen: Sequence[Line]) -> None:
    from penstock.store import migrate

    if migrate.ENGINE not in chosen and migrate.status(dsn)[0].current is None:
        fail(
            f"{chosen[0].name} stands on the engine, which this database does not have; run "
            "`penstock migrate up --line engine` first. Nothing was changed.",
            OUTDATED,
        )


def _refuse_under_applications(dsn: str, chosen: Sequence[Line]) -> None:
    from penstock.store import migrate

    if list(chosen) != [migrate.ENGINE]:
        return
    others = [line for line in migrate.lines() if line is not migrate.ENGINE]
    for state in migrate.status(dsn, others):
        if state.current is not None:
            fail(
                f"{state.line} stands on the engine; take it down first: "
                f"`penstock migrate down base --line {state.line}`.",
                REFUSED,
            )


def _ask(revision: str, name: str) -> None:
    if not sys.stdin.isatty():
        fail(f"Going down to {revision} loses the data of {name}; add --yes if you mean it.", REFUSED)
    typer.confirm(f"Going down to {revision} loses the data of {name}. Go on?", abort=True)


def _tell_change(before: Sequence[SchemaState], after: Sequence[SchemaState], *, as_json: bool) -> None:
    if as_json:
        print_json([{**_row(now), "before": then.current} for then, now in zip(before, after, strict=True)])
        return
    for then, now in zip(before, after, strict=True):
        if then.current == now.current:
            typer.echo(f"{now.line}: already at {now.current or 'base'}; nothing to do.")
        else:
            typer.echo(f"{now.line}: {then.current or 'base'} -> {now.current or 'base'}")


def _row(state: SchemaState) -> dict[str, object]:
    return {
        "line": state.line,
        "current": state.current,
        "head": state.head,
        "state": _word(state),
        "pending": list(state.pending),
    }


def _word(state: SchemaState) -> str:
    if state.up_to_date:
        return "up to date"
    if state.current is None:
        return "missing"
    return "newer than this Penstock" if state.newer else "old"
