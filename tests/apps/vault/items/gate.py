"""An adapter whose calls wait until somebody opens, and answer what they are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.contract.calls import Answer, Request, Usage
from penstock.providers.port import BatchLimits
from tests.apps.vault.conftest import ANSWER, World

PATIENCE = 10


@dataclass
class Gate:
    """Stands in for a provider."""

    kind: str = "openai_responses"
    provider: str = "openai"
    supports_micro_batch: bool = False
    limits: BatchLimits | None = None
    answer: Any = field(default_factory=lambda: dict(ANSWER))
    asked: list[Request] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, request: Request, *, seconds: float) -> Answer:
        """Wait, then answer."""
        del seconds
        self.asked.append(request)
        self.came.set()
        await self.opened.wait()
        return Answer(json.dumps(self.answer), self.answer, Usage(1, 1))

    async def close(self) -> None:
        """Nothing to close."""


def gated(world: World) -> Gate:
    """The only adapter of the worker's side."""
    made = Gate()
    world.worker.app.use_adapters({"openai_responses": lambda _url: made})
    return made


@asynccontextmanager
async def asking(world: World, gate: Gate, name: str = "one") -> AsyncIterator[None]:
    """A worker whose call waits at the gate; it opens when the block ends, and the work is waited for."""
    work = asyncio.create_task(world.work(name))
    await asyncio.wait_for(gate.came.wait(), PATIENCE)
    try:
        yield
    finally:
        gate.opened.set()
        await asyncio.wait_for(work, PATIENCE)


async def somebody_waits(world: World) -> None:
    """Until somebody waits for a lock in this database."""
    waiting = (
        "select exists (select from pg_locks l join pg_stat_activity a using (pid) "
        "where not l.granted and a.datname = current_database())"
    )
    async with asyncio.timeout(PATIENCE):
        while await world.people.app.pool.fetchval(waiting) is not True:
            pass  # each look is a round trip
