"""All interleavings of claim, renew, complete, requeue, fail, reap and cancel on two connections.

Every one must be explained by the model: there is an order of what committed,
one operation after the other, that gives the same answers and the same row.
So no two claims have one fence, of two writes that exclude each other one
wins, and what has ended stays as it is. Afterwards the job is worked to its
end, whatever has happened to it: none is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import pytest

from penstock import Penstock
from penstock.store import claims
from tests.model.ground import Ground
from tests.model.model import TERMINAL, Model, Ticket
from tests.model.races import TYPE, Actor, Race, explained, interleavings

OPS: Final = ("claim", "renew", "complete", "finish", "requeue", "fail", "reap", "cancel")
Script = tuple[str, tuple[str, ...], tuple[str, ...]]
SCRIPTS: Final[tuple[Script, ...]] = (
    ("queued", ("claim", "complete"), ("claim", "renew", "complete")),
    ("queued", ("claim-", "claim"), ("claim", "complete")),
    ("queued", ("claim", "renew", "complete"), ("cancel",)),
    ("expired", ("renew", "complete"), ("reap", "claim", "complete")),
    ("expired", ("complete",), ("reap", "claim", "fail")),
    ("expired", ("reap", "claim"), ("reap-", "claim", "complete")),
    ("expired", ("requeue", "claim"), ("reap", "claim", "complete")),
    ("held", ("requeue", "claim", "complete"), ("cancel", "complete")),
)


@dataclass
class Track:
    """A database with two connections to race on and one to watch from."""

    ground: Ground
    watcher: asyncpg.Connection[Any]
    one: asyncpg.Connection[Any]
    two: asyncpg.Connection[Any]

    async def prepare(self, state: str) -> tuple[int, Ticket | None, Model]:
        """One job that waits, or is held by `a` under fence 1, or is held with its lease run out."""
        job = await self.ground.enqueue(TYPE)
        assert job is not None
        model = Model()
        model.enqueue(TYPE)
        if state == "queued":
            return job, None, model
        [ticket] = await self.ground.take("a", [TYPE], 1)
        model.grant([0], "a")
        if state == "expired":
            await self.expire(job)
            model.jobs[0].expiry = model.now
        return job, ticket, model

    async def expire(self, job: int) -> None:
        """Let the lease of a job run out, if it has one."""
        await self.watcher.execute(
            "update penstock.jobs set lease_expires_at = penstock.now() - interval '1 s' "
            "where job_id = $1 and status = 'processing'",
            self.ground.ids[job],
        )

    async def race(self, state: str, scripts: tuple[tuple[str, ...], tuple[str, ...]], order: tuple[int, ...]) -> None:
        """One interleaving, and its verdict."""
        job, ticket, model = await self.prepare(state)
        actors = Actor("a", self.one, scripts[0], ticket), Actor("b", self.two, scripts[1], ticket)
        histories = await Race(self.ground, self.watcher, actors, job).run(order)
        row = await self.row(job)
        assert explained(model, histories, row), (state, scripts, order, histories, row)
        assert await self.outcome(job) in TERMINAL

    async def row(self, job: int) -> tuple[Any, ...]:
        """What the model compares."""
        found = await self.watcher.fetchrow(
            "select status, claim_seq, claimed_by, attempt_count, last_error_code from penstock.jobs where job_id = $1",
            self.ground.ids[job],
        )
        assert found is not None
        return tuple(found)

    async def outcome(self, job: int) -> str:
        """Work the job to its end; the status that it has then."""
        await self.expire(job)
        await self.ground.reap()
        for ticket in await self.ground.take("c", [TYPE], 1) or await self.ground.take_suspect("c", [TYPE]):
            await self.ground.complete("c", [ticket])
        status: str = (await self.row(job))[0]
        return status


@pytest.fixture
async def track(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Track]:
    monkeypatch.setattr(claims, "OBSTRUCTED_AFTER", "1min")  # whoever waits here is let go on by the other script
    async with Penstock(dsn, notify="off") as app:
        connections = [await asyncpg.connect(dsn) for _ in range(3)]
        ground = Ground(app, connections[0])
        await ground.declare(TYPE)
        yield Track(ground, *connections)
        for connection in connections:
            await connection.close()


@pytest.mark.contract("C-31", "Q-15", "Q-62")
@pytest.mark.parametrize("one", OPS)
async def test_two_operations_meet_in_every_order(track: Track, one: str) -> None:
    for two in OPS[OPS.index(one) :]:
        for scripts in (((one,), (two,)), ((one + "-",), (two,))):
            for state in ("held", "expired"):
                for order in interleavings(*scripts):
                    await track.race(state, scripts, order)


@pytest.mark.contract("C-31", "Q-62", "D-51", "Q-65")
@pytest.mark.parametrize(
    "script", SCRIPTS, ids=lambda script: f"{script[0]}: {'+'.join(script[1])} | {'+'.join(script[2])}"
)
async def test_two_scripts_meet_in_every_order(track: Track, script: Script) -> None:
    state, one, two = script
    for order in interleavings(one, two):
        await track.race(state, (one, two), order)
