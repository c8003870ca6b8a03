"""What every command group shares: a database, an event loop, tables and JSON.

    with database(OPERATOR) as db     a pool on PENSTOCK_DSN or the embedded server, its schema checked
    run(work())                       an event loop; errors become a sentence and an exit code
    show(rows, columns, as_json=…)    a table for people, JSON for programs

On the embedded server a command logs in as the role it needs, and the schema
and the roles are brought up to date by themselves. With a DSN the login is
the one given there, and nothing is migrated behind its owner's back.
"""

from __future__ import annotations

import asyncio
import getpass
import json
from contextlib import asynccontextmanager
from dataclasses import asdict, is_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from uuid import UUID

import typer

from penstock.cli.exits import USAGE, fail, told
from penstock.contract.texts import is_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence

    from penstock.settings import Settings
    from penstock.store.connect import Pool

T = TypeVar("T")

WORKER: Final = "penstock_worker"
OPERATOR: Final = "penstock_operator"
ORCHESTRATOR: Final = "penstock_orchestrator"

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many rows.")]


def _user() -> str:
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
    return name if is_text(name) else "unknown"


Who = Annotated[str, typer.Option("--who", help="Who does this; kept in the trail.", default_factory=_user)]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* in an event loop of its own; what goes wrong is told."""
    with told():
        return asyncio.run(work)


@asynccontextmanager
async def database(role: str = OPERATOR, settings: Settings | None = None) -> AsyncIterator[Pool]:
    """A small pool on the database of *settings*, as *role* where the embedded server lets it choose."""
    from penstock.settings import load_settings
    from penstock.store import connect, schema
    from penstock.telemetry import logs

    settings = settings or load_settings()
    logs.configure("error", settings.log_format)  # the command itself says what it did
    dsn = await find_dsn(settings, role)
    pool = await connect.create_pool(dsn, size=2, name="penstock cli", prepared=settings.prepared_statements)
    try:
        await schema.require_current(pool)
        yield pool
    finally:
        await pool.close()


async def find_dsn(settings: Settings, role: str) -> str:
    """The DSN of *settings*; without one, that of *role* on the embedded server, which is made ready."""
    if settings.dsn is not None:
        return settings.dsn
    from penstock.cli.first_start import ready_server

    server = await asyncio.to_thread(ready_server, settings.home)
    return server.url(user=role)


def parse_json(what: str, text: str, *, as_in: str) -> Any:
    """The JSON of an option or argument; what is none is wrong usage."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        fail(f"The {what} is no JSON; quote it for the shell, as in '{as_in}'.", USAGE)
    except RecursionError:
        fail(f"The {what} is nested too deeply.")


def _no_constant(name: str) -> Any:
    """NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(name)


def show(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str = "Nothing there."
) -> None:
    """Print *rows*: their *columns* as a table, or everything as JSON."""
    found = [dict(row) for row in rows]
    if as_json:
        print_json(found)
    elif not found:
        typer.echo(empty)
    else:
        print_table(found, columns)


def print_json(value: object) -> None:
    """Print *value* as JSON, times in UTC."""
    typer.echo(json.dumps(plain(value), ensure_ascii=False))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print *rows* as a table; into a pipe it is as wide as it needs to be."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), no_wrap=column.endswith("id"), justify=_justify(rows, column))
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console.width = 1000
    with console.capture() as drawn:
        console.print(table)
    typer.echo(drawn.get(), nl=False)  # a console would end the process by itself when nobody reads


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print one thing, a line per fact; facts that are None are left out."""
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        if value is not None:
            typer.echo(f"{name.replace('_', ' '):<{width}}  {cell_text(value)}")


def plain(value: object) -> Any:  # noqa: PLR0911 - one line per kind
    """*value* in the types that JSON has; times as ISO 8601 in UTC, spans in seconds."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return value.astimezone(UTC).isoformat()
        case date() | UUID():
            return str(value)
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return float(value)
        case dict():
            return {str(name): plain(member) for name, member in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return plain(asdict(value))
        case list() | tuple() | set():
            return [plain(member) for member in value]
        case _:
            return str(value)


def cell_text(value: object) -> str:  # noqa: PLR0911 - one line per kind
    """*value* as a person reads it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case timedelta():
            return str(timedelta(seconds=round(value.total_seconds())))
        case float():
            return f"{value:,.1f}"
        case list() | tuple():
            return ", ".join(str(member) for member in value)
        case dict():
            return " ".join(f"{name}={cell_text(member)}" for name, member in value.items())
        case _:
            return str(value)


def _cell(value: object) -> str:
    from rich.markup import escape

    return escape(cell_text(value))


def _justify(rows: Sequence[Mapping[str, Any]], column: str) -> Any:
    numbers = all(isinstance(row[column], int | float | None) and not isinstance(row[column], bool) for row in rows)
    return "right" if numbers else "left"
