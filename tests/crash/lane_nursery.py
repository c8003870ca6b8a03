"""A nursery of submitters and collectors: each forked process makes one round of its functions, or dies on the way."""

from __future__ import annotations

import asyncio
import functools
import signal
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from penstock.contract import crash
from penstock.contract.calls import Request
from penstock.contract.claims import Trigger
from penstock.contract.custom_ids import custom_id
from penstock.contract.keys import uuid7
from penstock.emulator import Emulator, RemoteEmulator
from penstock.engine.batches import collector, submitter
from penstock.providers.port import Submission
from tests.crash import nursery
from tests.crash.lane_types import KINDS, build_app, route

if TYPE_CHECKING:
    from penstock.providers.port import BatchAdapter

WARM = (collector, submitter)  # imported before the fork, for their own sake


def child(order: dict[str, Any]) -> None:
    """Call each function once, as a schedule would."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if order.get("crash_at"):
        crash.arm(crash.CrashPoint(order["crash_at"]), order["passages"])
    asyncio.run(work(order))


async def work(order: dict[str, Any]) -> None:
    """One process of the lane."""
    app = build_app(order["dsn"], RemoteEmulator(order["emulator"]))
    async with app, app.dispatching(insecure=True) as dispatcher:
        for name in order["functions"]:
            await dispatcher.dispatch(app.functions.get(name), Trigger.SCHEDULE)


async def warm_up() -> None:
    """Have the SDKs build what they build on their first batch: a process that has to do it lives too long."""
    cached: Any = functools.cache(ssl.create_default_context)
    ssl.create_default_context = cached  # loopback speaks no TLS, and reading all certificates takes its time
    with Emulator(finish_after=0) as emulator:
        app = build_app("postgresql://nobody@localhost/nowhere", RemoteEmulator(emulator.url))
        for kind in KINDS:
            request = Request(route(kind, RemoteEmulator(emulator.url)), "Rewrite politely.", "Hello")
            await there_and_back(cast("BatchAdapter", app.adapters.get(request.route)), request)
        await app.adapters.close()


async def there_and_back(adapter: BatchAdapter, request: Request) -> None:
    """Everything that a lane asks of an adapter."""
    now, batch_id = datetime.now(UTC), uuid7()
    line = adapter.line(custom_id(batch_id, 0, 1), request)
    submission = Submission(batch_id, request.route.model, [line], now)
    created = await adapter.create(submission, await adapter.upload(submission))
    (found,) = await adapter.find(batch_id, now - timedelta(hours=1), now + timedelta(hours=1))
    assert found.provider_batch_id == created.provider_batch_id
    state = await adapter.poll(created.provider_batch_id)
    assert [result.answer async for result in adapter.results(state)] != [None]
    await adapter.discard(state)


if __name__ == "__main__":
    asyncio.run(warm_up())
    nursery.main(child)
