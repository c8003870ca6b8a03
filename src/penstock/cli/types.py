"""`penstock types`: policies in the database, and the gates of each type."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli import applications
from penstock.cli.common import OPERATOR, Json, Who, database, print_facts, print_json, run, show
from penstock.cli.exits import USAGE, fail, told
from penstock.contract.errors import NotFound
from penstock.contract.policies import Limits, Rate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.store.claims import Db

app = typer.Typer(name="types", help="Job types: policies, pauses, limits, breakers.", no_args_is_help=True)

COLUMNS = ("job_type", "dispatch", "max_attempts", "audit", "state", "running", "rate", "synced_at")
SPANS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
RATE: Final = re.compile(r"(?P<count>\d{1,10})/(?P<span>\d{0,10}\.?\d{0,6})(?P<unit>[smhd]?)")
MOST: Final = 2_147_483_647  # what an integer column holds
LONGEST: Final = 366 * 86_400  # seconds that a rate may be counted over

TypeName = Annotated[str, typer.Argument(metavar="TYPE", show_default=False)]
RateText = Annotated[str | None, typer.Option(help="Starts per time, such as 10/s, 600/h or 5/30s.")]


@app.command("list")
def list_types(*, as_json: Json = False) -> None:
    """List the types that the database knows, with their gates."""
    run(_list(as_json=as_json))


async def _list(*, as_json: bool) -> None:
    from penstock.store import types

    async with database() as db:
        rows = [_row(dict(row)) for row in await types.known(db)]
    show(rows, COLUMNS, as_json=as_json, empty="No types yet; a worker writes them, or `penstock types sync`.")


def _row(found: dict[str, Any]) -> dict[str, Any]:
    """The columns people read, beside what is stored."""
    import json

    state = (
        "paused" if found["paused_at"] else "running" if found["breaker"] == "closed" else f"breaker {found['breaker']}"
    )
    shown = {
        "audit": "full" if found["audited"] else "summary",
        "state": state,
        "running": found["max_running"],
        "rate": _rate_text(found["rate_count"], found["rate_period"]),
    }
    return {**found, "policy": json.loads(found["policy"]), **shown}


@app.command()
def sync(application: applications.Application = None, *, as_json: Json = False) -> None:
    """Write the policies of your application to the database, so that SQL callers can enqueue.

    A worker's login registers types and tightens them. Retention, audit, steps,
    enqueue_role, limits and the daily cap are loosened by an operator's login.
    """
    from penstock.store import types

    with told():
        found = applications.load(application)
        applications.login(found, OPERATOR)

    async def write() -> tuple[list[str], dict[str, list[str]]]:
        names = sorted(job_type.name for job_type in found.types)
        async with found:
            await found.sync_types()
            held = await types.waiting(found.pool)
        return names, {name: held[name] for name in names if name in held}

    names, held = run(write())
    print_json(names) if as_json else typer.echo(f"{len(names)} types are in the database: {', '.join(names)}")
    for name, values in held.items():
        typer.echo(f"{name}: {', '.join(values)} wait for a sync by a login of penstock_operator.", err=True)


@app.command()
def pause(
    job_type: TypeName, *, reason: Annotated[str | None, typer.Option(help="Why; shown to others.")] = None, who: Who
) -> None:
    """Claim no more jobs of a type; what runs goes on."""
    from penstock.store import types

    _move(lambda db: types.pause(db, job_type, who=who, why=reason))
    typer.echo(f"{job_type} is paused.")


@app.command()
def resume(job_type: TypeName) -> None:
    """Claim jobs of a paused type again."""
    from penstock.store import types

    _move(lambda db: types.resume(db, job_type))
    typer.echo(f"{job_type} is claimed again.")


@app.command()
def limits(
    job_type: TypeName,
    *,
    running: Annotated[int | None, typer.Option(min=1, max=MOST, help="At once, over all workers.")] = None,
    rate: RateText = None,
    key_running: Annotated[int | None, typer.Option(min=1, max=MOST, help="At once for each limit key.")] = None,
    key_rate: RateText = None,
    clear: Annotated[bool, typer.Option("--clear", help="Lift every limit that is not given.")] = False,
    as_json: Json = False,
) -> None:
    """Show the limits of a type, or change those that are given until its policy changes."""
    changes = {"running": running, "rate": _rate(rate), "key_running": key_running, "key_rate": _rate(key_rate)}
    run(_limits(job_type, {name: value for name, value in changes.items() if value}, clear=clear, as_json=as_json))


async def _limits(job_type: str, changes: dict[str, Any], *, clear: bool, as_json: bool) -> None:
    from penstock.store import types

    async with database() as db:
        if changes or clear:
            kept = {} if clear else _stored(await _find(db, job_type))
            await types.set_limits(db, job_type, Limits(**{**kept, **changes}))
        found = _stored(await _find(db, job_type))
    facts = {name: _shown(value) for name, value in found.items()}
    print_json(facts) if as_json else print_facts({name: value or "no limit" for name, value in facts.items()})


@app.command()
def breaker(
    job_type: TypeName,
    *,
    close: Annotated[bool, typer.Option("--close", help="Claim the type again: the cause is mended.")] = False,
    as_json: Json = False,
) -> None:
    """Show the breaker of a type, or close it."""
    run(_breaker(job_type, close=close, as_json=as_json))


async def _breaker(job_type: str, *, close: bool, as_json: bool) -> None:
    from penstock.store import types

    async with database() as db:
        if close:
            await types.close_breaker(db, job_type)
        row = await _find(db, job_type)
    facts = {name: value for name, value in row.items() if name.startswith("breaker")}
    print_json(facts) if as_json else print_facts(facts)


async def _find(db: Db, job_type: str) -> dict[str, Any]:
    from penstock.store import types

    for row in await types.known(db):
        if row["job_type"] == job_type:
            return dict(row)
    raise NotFound("type", job_type)


def _move(step: Callable[[Db], Awaitable[None]]) -> None:
    async def move() -> None:
        async with database() as db:
            await step(db)

    run(move())


def _stored(row: dict[str, Any]) -> dict[str, Any]:
    """The limits of a type as `Limits` takes them."""
    return {
        "running": row["max_running"],
        "rate": Rate(row["rate_count"], row["rate_period"]) if row["rate_count"] else None,
        "key_running": row["key_max_running"],
        "key_rate": Rate(row["key_rate_count"], row["key_rate_period"]) if row["key_rate_count"] else None,
    }


def _rate(text: str | None) -> Rate | None:
    """`10/s`, `600/h`, `5/30s` or `5/30`, over a year at most; anything else is wrong usage."""
    if text is None:
        return None
    match = RATE.fullmatch(text.strip())
    span = float(match["span"] or 1) * SPANS[match["unit"] or "s"] if match and match["span"] != "." else 0.0
    if match is None or not 0 < span <= LONGEST or not (match["span"] or match["unit"]):
        fail(f"No rate {text[:40]!r}; write it as 10/s, 600/h or 5/30s, over 366d at most.", USAGE)
    if not 1 <= int(match["count"]) <= MOST:
        fail(f"No rate {text[:40]!r}; it lets 1 to {MOST} jobs start.", USAGE)
    return Rate(int(match["count"]), timedelta(seconds=span))


def _rate_text(count: int | None, period: timedelta | None) -> str | None:
    return None if count is None or period is None else f"{count}/{period.total_seconds():g}s"


def _shown(value: object) -> object:
    return _rate_text(value.count, value.period) if isinstance(value, Rate) else value
