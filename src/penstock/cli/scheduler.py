"""`penstock scheduler`: run what is due, until told to stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import applications
from penstock.cli.common import WORKER
from penstock.cli.exits import told

if TYPE_CHECKING:
    from penstock.engine.app import Penstock

app = typer.Typer(name="scheduler", add_completion=False)


@app.command()
def scheduler(
    application: applications.Application = None,
    *,
    name: Annotated[str | None, typer.Option(help="The scheduler's name in claims.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Handlers at once in each run.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept a superuser, BYPASSRLS or owner login.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json, text, or auto.")] = None,
) -> None:
    """Run functions and enqueue jobs when they are due; any number of schedulers may share the work.

    The first SIGTERM or SIGINT lets what runs end, the second one ends it at once.
    """
    from penstock.engine.process import leave, settings_of
    from penstock.telemetry import logs

    given = {"log_level": log_level, "log_format": log_format, "insecure": insecure or None, "concurrency": concurrency}
    with told():
        found = applications.load(application)
        found.settings = settings_of(found, {key: value for key, value in given.items() if value is not None})
        logs.configure(found.settings.log_level, found.settings.log_format)
        dsn = applications.login(found, WORKER)
        asyncio.run(_schedule(found, dsn, name))
    leave(0)


async def _schedule(found: Penstock, dsn: str, name: str | None) -> None:
    from penstock.contract import crash
    from penstock.engine.process import check_schema, obey_signals

    crash.arm_from_environment()
    await check_schema(dsn)
    made = found.scheduler(dsn=dsn, name=name, insecure=found.settings.insecure)
    obey_signals(made.stop)
    await made.run()
