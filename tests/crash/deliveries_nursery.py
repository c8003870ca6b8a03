"""A nursery of workers of the review application: each forked process tells people until nothing waits, or dies."""

from __future__ import annotations

import asyncio
import functools
import signal
import ssl
from pathlib import Path
from typing import Any

import aiosmtplib
import httpcore
import standardwebhooks
from httpcore._backends import anyio

from penstock.apps.review import application, review_app
from penstock.apps.review.sources import registry as sources
from penstock.apps.review.sweep import FUNCTION
from penstock.channels import registry, resend, smtp, web, webhook
from penstock.contract import crash
from penstock.contract.claims import Trigger
from penstock.telemetry import logs
from penstock.testing.inline import InlineWorker
from tests.crash import nursery

# Imported before the fork, for their own sake
WARM = (aiosmtplib, anyio, application, httpcore, registry, resend, smtp, sources, standardwebhooks, webhook)


def child(order: dict[str, Any]) -> None:
    """One life."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if order.get("crash_at"):
        crash.arm(crash.CrashPoint(order["crash_at"]), order["passages"])
    with Path(order["log"]).open("a") as stream:
        logs.configure("debug", "json", stream=stream)
        asyncio.run(work(order))


async def work(order: dict[str, Any]) -> None:
    """Tell everybody who is due, or sweep once; under the login of a worker."""
    reviews = review_app(**order["settings"])
    async with reviews.app as app:
        if order.get("sweep"):
            await app.run_function(FUNCTION, trigger=Trigger.SCHEDULE)
            return
        worker = InlineWorker(await app.dsn(), list(app.types), app.settings, name=order["name"], concurrency=6)
        await worker.open()
        while await worker.work():
            pass
        await worker.close()


if __name__ == "__main__":
    cached: Any = functools.cache(ssl.create_default_context)
    ssl.create_default_context = cached  # loopback speaks no TLS, and reading all certificates takes its time
    ssl.create_default_context()
    web.trusted()
    nursery.main(child)
