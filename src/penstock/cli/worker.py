"""`penstock worker`: serve job types until told to stop.

Exit codes beside those of all commands: 0 after SIGTERM or SIGINT, 128 + the
signal after a second one, 75 from a process that its supervisor shall replace.
"""

from __future__ import annotations

import json
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import applications
from penstock.cli.common import WORKER
from penstock.cli.exits import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.app import Penstock
    from penstock.engine.process import Orders
    from penstock.settings import Settings

app = typer.Typer(name="worker", add_completion=False)


@app.command()
def worker(
    application: applications.Application = None,
    *,
    types: Annotated[str | None, typer.Option(help="Serve these types only, such as thumbnail,mail.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Handlers at once in each process.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Worker processes, for CPU-heavy handlers.")] = None,
    name: Annotated[str | None, typer.Option(help="The worker's name in claims and metrics.")] = None,
    poll_seconds: Annotated[float | None, typer.Option(help="Pause between fallback polls.")] = None,
    grace_seconds: Annotated[float | None, typer.Option(help="From SIGTERM until handlers are stopped.")] = None,
    rss_limit_mb: Annotated[int | None, typer.Option(help="Replace a process that holds more memory.")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Serve /metrics on this port.")] = None,
    metrics_host: Annotated[str | None, typer.Option(help="Serve /metrics on this address.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json, text, or auto.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept a superuser, BYPASSRLS or owner login.")] = False,
    scheduler: Annotated[
        bool, typer.Option("--scheduler", help="Also run what is due, as `penstock scheduler`.")
    ] = False,
) -> None:
    """Serve job types until told to stop.

    The first SIGTERM or SIGINT finishes what runs, the second one ends it at once.
    """
    from penstock.engine.process import leave

    given = {
        "concurrency": concurrency, "processes": processes, "poll_seconds": poll_seconds,
        "grace_seconds": grace_seconds, "rss_limit_mb": rss_limit_mb, "metrics_port": metrics_port,
        "metrics_host": metrics_host, "log_level": log_level, "log_format": log_format,
        "worker_name": name, "insecure": insecure or None,
    }  # fmt: skip
    with told():
        work = _follow() if "PENSTOCK_CHANNEL" in os.environ else _begin(application, types, given, scheduler=scheduler)
    leave(_worked(work))


def _worked(work: Callable[[], int]) -> int:
    """The exit code of *work*, also when it failed: only `leave` gets past a thread that hangs."""
    try:
        with told():
            return work()
    except typer.Exit as ended:
        return ended.exit_code


def _begin(application: str | None, types: str | None, given: dict[str, Any], *, scheduler: bool) -> Callable[[], int]:
    """Find the application and its database; what follows is to work here, or to supervise others that do."""
    from penstock.engine.process import Orders, settings_of

    target = applications.named(application)
    found = applications.load(target)
    overrides = {name: value for name, value in given.items() if value is not None}
    settings = settings_of(found, overrides)
    chosen = None if types is None else [name for part in types.split(",") if (name := part.strip())]
    for name in chosen or ():
        found.types.get(name)
    _log(settings)
    orders = Orders(
        application=target,
        dsn=applications.login(found, WORKER),
        types=chosen,
        name=settings.worker_name,
        insecure=settings.insecure,
        scheduler=scheduler,
        settings=overrides,
    )
    if settings.processes > 1:
        from penstock.engine.supervisor import supervise

        return partial(supervise, orders, settings.processes, settings)
    return partial(_alone, found, orders, settings)


def _alone(found: Penstock, orders: Orders, settings: Settings) -> int:
    from penstock.engine.process import work

    if settings.metrics_port is not None:
        from penstock.telemetry.exposition import serve

        serve(settings.metrics_host, settings.metrics_port, orders.dsn)
    return work(found, orders)


def _follow() -> Callable[[], int]:
    """Be one process of a supervisor: its orders come through the channel that it left open."""
    from penstock.engine.locate import find_app
    from penstock.engine.process import Orders, settings_of, work

    channel = socket.socket(fileno=int(os.environ.pop("PENSTOCK_CHANNEL")))
    orders = Orders(**json.loads(_line(channel)))
    found = find_app(orders.application)
    if found.named_dsn is None:
        found.use_dsn(orders.dsn)
    _log(settings_of(found, orders.settings))
    return partial(work, found, orders, channel)


def _line(channel: socket.socket) -> bytes:
    with channel.dup() as copy, copy.makefile("rb") as lines:
        return lines.readline()


def _log(settings: Settings) -> None:
    from penstock.telemetry import logs

    logs.configure(settings.log_level, settings.log_format)
