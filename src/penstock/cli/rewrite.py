"""`penstock rewrite`: keys, erasure, reports and the trail of a request. Never a text.

Exit codes: 0 done, 1 refused or left undone, 2 wrong usage, 3 no such home or
request, 4 the database is away, 6 refused without --yes, or to this login.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from penstock.cli.common import Json, Who, database, print_facts, print_json, run, show
from penstock.cli.exits import NOT_FOUND, REFUSED, fail, told

if TYPE_CHECKING:
    from penstock.apps.rewrite.erasure import Erasure, Rotation
    from penstock.store.connect import Pool

app = typer.Typer(name="rewrite", help="The rewrite application: keys, erasure, reports.", no_args_is_help=True)
keys = typer.Typer(name="keys", help="The keys that seal stored text.", no_args_is_help=True)
report = typer.Typer(name="report", help="Sums over all homes; they name nobody.", no_args_is_help=True)
app.add_typer(keys)
app.add_typer(report)

MICROS: Final = 1_000_000
BACKUPS: Final = (
    "Backups, replicas and archived WAL from before still hold the wrapped data key. With the key of the settings that "
    "wrapped it they can be read until they expire; a rotation, and the end of the old key, closes them too."
)
AUDIT_COLUMNS: Final = (
    "at", "from_status", "status", "attempt", "code", "execution_mode", "batch_group_key", "batch_id",
    "batch_item_index", "provider_batch_id", "submission_provider_batch_id",
)  # fmt: skip

Home = Annotated[UUID, typer.Option("--home", help="The home that the request belongs to.", show_default=False)]
Since = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="From this day on (UTC).")]
Until = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Up to the end of this day (UTC).")]


# ------------------------------------------------------------------------- keys


@keys.command("new")
def new_(
    *, identity: Annotated[str | None, typer.Option("--id", help="Its id, stored beside what it wraps.")] = None
) -> None:
    """Make a key and print it as PENSTOCK_TEXT_KEYS takes it; nothing is stored anywhere."""
    with told():
        from penstock.apps.rewrite.keyring import new_key

        typer.echo(new_key(identity or f"{datetime.now(UTC):%Y%m%d}-{token_hex(2)}"))
        typer.echo(
            "Put it in front of PENSTOCK_TEXT_KEYS, behind it the keys that are in use, separated by commas. "
            "Restart, then run `penstock rewrite keys rotate`.",
            err=True,
        )


@keys.command()
def rotate(*, as_json: Json = False) -> None:
    """Wrap the data key of every home by the first key of PENSTOCK_TEXT_KEYS; run again, it goes on."""
    run(_rotate(as_json=as_json))


@keys.command()
def status(*, as_json: Json = False) -> None:
    """Show which keys the homes depend on; exit code 1 when the settings lack one of them."""
    run(_status(as_json=as_json))


async def _rotate(*, as_json: bool) -> None:
    from penstock.apps.rewrite import erasure
    from penstock.apps.rewrite.keyring import Keyring
    from penstock.settings import load_settings

    settings = load_settings()
    keyring = Keyring.from_settings(settings)
    async with database(settings=settings) as db:
        done = await erasure.rotate(db, keyring, told=lambda so_far: _progress(so_far, quiet=as_json))
    _tell_rotation(done, keyring.first, as_json=as_json)


def _progress(so_far: Rotation, *, quiet: bool) -> None:
    if not quiet and sys.stderr.isatty():
        typer.echo(f"\r{so_far.rewrapped} homes", nl=False, err=True)


def _tell_rotation(done: Rotation, first: str, *, as_json: bool) -> None:
    if as_json:
        broken = [str(home) for home in done.broken]
        print_json({"key": first, "rewrapped": done.rewrapped, "missing": dict(done.missing), "broken": broken})
    else:
        typer.echo(f"Wrapped the data keys of {done.rewrapped} homes by {first}.")
    for key_id, homes in sorted(done.missing.items()):
        typer.echo(f"{homes} homes depend on the key {key_id}, which PENSTOCK_TEXT_KEYS lacks; put it back.", err=True)
    for home in done.broken:
        typer.echo(f"The data key of home {home} does not open; restore its row from a backup.", err=True)
    if not done.complete:
        raise typer.Exit(1)


async def _status(*, as_json: bool) -> None:
    from penstock.apps.rewrite import erasure
    from penstock.apps.rewrite.keyring import Keyring
    from penstock.settings import load_settings

    settings = load_settings()
    keyring = Keyring.from_settings(settings)
    async with database(settings=settings) as db:
        found = await erasure.key_usage(db, keyring)
    columns = ("key_id", "in_use", "in_settings", "homes", "last_rewrapped_at")
    show([{name: getattr(use, name) for name in columns} for use in found], columns, as_json=as_json)
    if lacking := [use.key_id for use in found if not use.in_settings]:
        fail(f"PENSTOCK_TEXT_KEYS lacks {', '.join(lacking)}; the text of these homes cannot be read until it is back.")


# ---------------------------------------------------------------------- erasure


@app.command("erase-home")
def erase_home(
    home_id: Annotated[UUID, typer.Argument(metavar="HOME", show_default=False)],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: it cannot be undone.")] = False,
    who: Who,
    as_json: Json = False,
) -> None:
    """Delete the data key of a home, cancel its open work and have its files at providers deleted."""
    if not yes:
        if not sys.stdin.isatty():
            fail(f"Erasing home {home_id} cannot be undone; add --yes if you mean it.", REFUSED)
        typer.confirm(f"Nobody will ever read the text of home {home_id} again. Go on?", abort=True)
    run(_erase(home_id, who, as_json=as_json))


async def _erase(home_id: UUID, who: str, *, as_json: bool) -> None:
    from penstock.apps.rewrite import erasure

    async with database() as db:
        done = await erasure.erase_home(db, home_id, who=who)
    if done is None:
        fail(f"There is no home {home_id}; nothing was changed.", NOT_FOUND)
    if as_json:
        print_json({**_facts(done), "backups": BACKUPS})
        return
    again = " once more: it was erased before" if done.erased_before else ""
    typer.echo(f"Erased home {home_id}{again}. Its data key is gone, and with it every text and preference.")
    print_facts({name: value for name, value in _facts(done).items() if name not in ("home_id", "erased_before")})
    if done.batches:
        typer.echo("The collector deletes what providers hold: at its next run, or when a shared batch has ended.")
    typer.echo(BACKUPS)


def _facts(done: Erasure) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(done)


# ---------------------------------------------------------------------- reports


@report.command("cost")
def cost_(*, since: Since = None, until: Until = None, as_json: Json = False) -> None:
    """What each pair of languages has cost."""
    from penstock.apps.rewrite import reports

    columns = (
        "source_locale", "target_locale", "lane", "execution", "calls", "input_tokens", "output_tokens", "cost",
    )  # fmt: skip
    _print(lambda db: reports.cost(db, _day(since), _day(until)), columns, as_json=as_json)


@report.command("failures")
def failures_(*, since: Since = None, until: Until = None, as_json: Json = False) -> None:
    """How requests of each pair of languages have ended."""
    from penstock.apps.rewrite import reports

    columns = (
        "source_locale", "target_locale", "lane", "requests", "completed", "failed", "canceled", "waiting",
        "failure_rate",
    )  # fmt: skip
    _print(lambda db: reports.failures(db, _from(since), _to(until)), columns, as_json=as_json)


@report.command("regressions")
def regressions_(*, since: Since = None, until: Until = None, as_json: Json = False) -> None:
    """What each version of prompt, evaluation and lexicon let through and refused."""
    from penstock.apps.rewrite import reports

    columns = (
        "prompt_version", "model", "eval_version", "lexicon_version", "passed", "refused", "refusal_rate", "codes",
    )  # fmt: skip
    _print(lambda db: reports.regressions(db, _from(since), _to(until)), columns, as_json=as_json)


@report.command("incidents")
def incidents_(
    *,
    code: Annotated[str | None, typer.Option(help="Only this failure class.")] = None,
    since: Since = None,
    until: Until = None,
    as_json: Json = False,
) -> None:
    """When which failure was met, where, and by how many jobs."""
    from penstock.apps.rewrite import reports

    columns = ("hour", "code", "provider", "model", "execution_mode", "jobs", "failed", "first_at", "last_at")
    _print(lambda db: reports.incidents(db, code, _from(since), _to(until)), columns, as_json=as_json)


def _print(ask: Callable[[Pool], Awaitable[list[dict[str, Any]]]], columns: tuple[str, ...], *, as_json: bool) -> None:
    async def work() -> None:
        async with database() as db:
            rows = await ask(db)
        found = rows if as_json else [_shown(row) for row in rows]
        show(found, columns, as_json=as_json, empty="Nothing to report.")

    run(work())


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    if "cost_micros" in row:
        return {**row, "cost": f"{row['cost_micros'] / MICROS:.4f}"}
    rates = {name: f"{row[name]:.1%}" for name in ("failure_rate", "refusal_rate") if row.get(name) is not None}
    return {**row, **rates}


# ---------------------------------------------------------------- one request


@app.command("record")
def record_(
    request_id: Annotated[UUID, typer.Argument(show_default=False)], *, home: Home, as_json: Json = False
) -> None:
    """Show the job record of a request."""
    from penstock.apps.rewrite import reports

    async def work() -> None:
        async with database() as db:
            found = await reports.record(db, home, request_id)
        if found is None:
            fail(_absent(request_id, home), NOT_FOUND)
        print_json(found) if as_json else print_facts(found)

    run(work())


@app.command("audit")
def audit_(
    request_id: Annotated[UUID, typer.Argument(show_default=False)], *, home: Home, as_json: Json = False
) -> None:
    """Show every move of the job of a request; --json has all fields of the audit."""
    from penstock.apps.rewrite import reports

    async def work() -> None:
        async with database() as db:
            found = await reports.audit(db, home, request_id)
        if not found:
            fail(_absent(request_id, home), NOT_FOUND)
        show(found, AUDIT_COLUMNS, as_json=as_json)

    run(work())


def _absent(request_id: UUID, home: UUID) -> str:
    return f"Home {home} has no request {request_id} with a job; check both ids."


def _day(moment: datetime | None) -> date | None:
    return None if moment is None else moment.date()


def _from(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)


def _to(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC) + timedelta(days=1)
