"""A nursery of workers of the rewrite application: each forked process calls one function, or dies on the way."""

from __future__ import annotations

import asyncio
import functools
import signal
import ssl
from pathlib import Path
from typing import Any

import jsonschema_rs

from penstock.apps.rewrite import application, rewrite_app
from penstock.apps.rewrite.classifier import detect
from penstock.contract import crash
from penstock.contract.calls import Request, Route
from penstock.contract.claims import Trigger
from penstock.emulator import Emulator
from penstock.engine.batches import collector, submitter
from penstock.providers.registry import Adapters
from penstock.telemetry import logs
from tests.apps.rewrite.rewriter import KINDLY
from tests.crash import nursery
from tests.crash.lane_nursery import there_and_back

WARM = (application, collector, jsonschema_rs, submitter)  # imported before the fork, for their own sake


def child(order: dict[str, Any]) -> None:
    """Call one function once, as a schedule would."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if order.get("crash_at"):
        crash.arm(crash.CrashPoint(order["crash_at"]), order["passages"])
    with Path(order["log"]).open("a") as stream:
        logs.configure("debug", "json", stream=stream)
        asyncio.run(work(order))


async def work(order: dict[str, Any]) -> None:
    """One process, under the login of a worker."""
    rewrites = rewrite_app(**order["settings"])
    async with rewrites.app, rewrites.app.dispatching() as dispatcher:
        await dispatcher.dispatch(rewrites.app.functions.get(order["function"]), Trigger.SCHEDULE)


async def warm_up() -> None:
    """Have everything built that is built on first use: languages, and the SDK's types."""
    cached: Any = functools.cache(ssl.create_default_context)
    ssl.create_default_context = cached  # loopback speaks no TLS, and reading all certificates takes its time
    for text in KINDLY.values():
        detect(text)
    with Emulator(finish_after=0) as emulator:
        route = Route("openai", "small", "openai_responses", emulator.openai_base_url)
        adapters = Adapters({"openai": "any-key"})
        await there_and_back(adapters.get(route), Request(route, "Rewrite.", "Hello"))
        await adapters.close()


if __name__ == "__main__":
    asyncio.run(warm_up())
    nursery.main(child)
