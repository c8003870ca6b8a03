"""`penstock run`: one call of a function, which is one bounded run.

Exit codes beside those of all commands: 0 when it ran or had nothing to do,
1 when the function failed, 6 when the login may not start a run.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli import applications
from penstock.cli.common import WORKER, Json, print_facts, print_json
from penstock.cli.exits import FAILED, fail, told

if TYPE_CHECKING:
    from penstock.engine.app import Penstock
    from penstock.engine.dispatcher import Dispatched

app = typer.Typer(name="run", add_completion=False)

OWNER: Final = "penstock"  # on the embedded server: the one login that both works and operates
SHOWN: Final = (
    "run_id", "function", "trigger", "max_jobs_per_run", "max_runtime_seconds", "claimed_count", "succeeded_count",
    "failed_count", "requeued_count", "canceled_count", "lost_count", "left_waiting_count", "rate_limited_count",
    "by_model", "by_error",
)  # fmt: skip


@app.command()
def run(
    function: Annotated[str, typer.Argument(metavar="FUNCTION", show_default=False, help="The function to run once.")],
    *,
    application: applications.ApplicationOption = None,
    admin: Annotated[
        bool, typer.Option("--admin", help="By hand: for operators, shown as such in the record.")
    ] = False,
    concurrency: Annotated[int | None, typer.Option(min=1, max=10_000, help="Handlers at once.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept a superuser, BYPASSRLS or owner login.")] = False,
    as_json: Json = False,
) -> None:
    """Run a function once, within its caps; with nothing pending it is skipped.

    For a timer of your own (cron, Kubernetes), or with --admin for a person.
    """
    with told():
        found = _application(application, function)
        found.functions.get(function)
        embedded = found.named_dsn is None
        dsn = applications.login(found, OWNER if admin else WORKER)
        # The embedded server lets its user log in as anyone: to refuse its owner would keep nothing from a handler.
        accepted = insecure or found.settings.insecure or (admin and embedded)
        options = {"insecure": accepted, "concurrency": concurrency}
        done = asyncio.run(_run(found, function, dsn, admin=admin, **options))
    _tell(done, as_json=as_json)


async def _run(found: Penstock, name: str, dsn: str, *, admin: bool, **options: Any) -> Dispatched:
    from penstock.contract import crash
    from penstock.contract.claims import Trigger
    from penstock.engine.process import check_schema, obey_signals

    crash.arm_from_environment()
    async with found.dispatching(dsn=dsn, **options) as dispatcher:
        obey_signals(lambda _reason: dispatcher.stop(found.settings.grace_seconds))
        await dispatcher.refuse_strangers(admin=admin)
        await check_schema(dsn)
        trigger = Trigger.ADMIN if admin else Trigger.SCHEDULE
        return await dispatcher.dispatch(found.functions.get(name), trigger)


def _application(target: str | None, function: str) -> Penstock:
    """The user's application; the functions that come with Penstock need none."""
    from penstock.engine.app import Penstock
    from penstock.engine.housekeeping import FUNCTIONS
    from penstock.telemetry import logs

    if target is None and applications.VARIABLE not in os.environ and function in {f.name for f in FUNCTIONS}:
        found = Penstock()
    else:
        found = applications.load(target)
    logs.configure(found.settings.log_level, found.settings.log_format)
    return found


def _tell(done: Dispatched, *, as_json: bool) -> None:
    row = {} if done.run is None else done.run.row("", "")
    facts: dict[str, Any] = {name: row[name] for name in SHOWN if name in row}
    if as_json:
        print_json({"function": done.function, "skipped": done.skipped, "error": done.error, "run": facts or None})
    elif done.skipped:
        typer.echo(f"{done.function} skipped: no pending items")
    else:
        print_facts(facts)
    if done.error is not None:
        fail(f"{done.function} failed: {done.error}. `penstock alerts list` shows it to others.", FAILED)
