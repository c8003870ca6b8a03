"""`penstock doctor`: what is wrong with this database, and how to mend it.

Exit codes: 0 nothing is wrong (notes may be there), 4 the database is away,
7 errors or warnings were found.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from penstock.cli.common import Json, print_json, run
from penstock.cli.exits import UNHEALTHY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.settings import Settings
    from penstock.store.doctor import Finding

app = typer.Typer(name="doctor", help="What is wrong with this database, and how to mend it.", add_completion=False)


@app.command()
def doctor(*, as_json: Json = False) -> None:
    """Examine the database of PENSTOCK_DSN, or the embedded one; exit code 7 when something is wrong."""
    found = run(_examine())
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        _print(found)
    if any(finding.is_problem for finding in found):
        raise typer.Exit(UNHEALTHY)


async def _examine() -> list[Finding]:
    from penstock.settings import load_settings
    from penstock.store import migrate
    from penstock.store.doctor import examine

    settings = load_settings()
    return await examine(
        await _dsn(settings),
        listen_dsn=settings.listen_dsn,
        prepared=settings.prepared_statements,
        lines=migrate.lines(),
    )


async def _dsn(settings: Settings) -> str:
    if settings.dsn is not None:
        return settings.dsn
    from penstock.embedded import ensure_started

    return (await asyncio.to_thread(ensure_started, settings.home)).url()


def _print(found: Sequence[Finding]) -> None:
    for finding in found:
        typer.echo(f"{finding.severity.upper():<8} {finding.finding}")
        typer.echo(f"         {finding.remedy}")
    problems = sum(finding.is_problem for finding in found)
    typer.echo(f"{problems} problems." if problems else "Nothing is wrong.")
