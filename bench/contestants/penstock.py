"""Penstock with every setting at its default: fence, renewed leases, metrics, caps, summary audit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, ClassVar

import structlog

from bench.contestant import TYPE, Contestant, Duty, run
from bench.contestants import table
from penstock import Audit, Job
from penstock import Penstock as Engine
from penstock.engine.process import settle_when_ready
from penstock.engine.worker import Worker

LESS_URGENT = 10  # the lowest number goes first


class PenstockClient:
    """The public calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def one(self, number: int) -> None:
        """One call, one transaction; the poke follows by itself."""
        await self._engine.enqueue(TYPE, {"n": number})

    wake = one

    async def many(self, numbers: Sequence[int], *, less_urgent: bool = False) -> None:
        """One bulk call for all."""
        await self._engine.enqueue_many(
            TYPE, [{"n": n} for n in numbers], priority=LESS_URGENT if less_urgent else None
        )


class Penstock(Contestant):
    """The engine as a user gets it."""

    name = "penstock"
    distribution = "penstock"
    share = 3.0
    schema_of = "penstock"
    pending = table.PENDING
    audit: ClassVar[Audit] = Audit.SUMMARY

    async def setup(self, dsn: str) -> None:
        """Migrate."""
        await table.make(dsn)

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncIterator[PenstockClient]:
        """An application that only enqueues."""
        async with _engine(dsn, None, self.audit) as engine:
            yield PenstockClient(engine)

    def work(self, duty: Duty) -> None:
        """One worker process, as `penstock worker` runs it."""
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        run(_work(duty, self.audit))

    async def preload(self, dsn: str, *, finished: int, future: int) -> None:
        """Straight into the job table."""
        await table.fill(dsn, finished, status="completed")
        await table.fill(dsn, future, status="queued", future=True)

    async def preload_others(self, dsn: str, jobs: int) -> None:
        """Due, more urgent, and older."""
        await table.fill(dsn, jobs, status="queued", job_type="elsewhere", priority=-10)


def _engine(dsn: str, duty: Duty | None, audit: Audit) -> Engine:
    engine = Engine(dsn)
    policy: dict[str, Any] = {"audit": audit}
    if duty is not None and duty.lease:
        policy["lease"] = timedelta(seconds=duty.lease)

    @engine.job(TYPE, **policy)
    async def noop(job: Job, args: dict[str, int]) -> None:  # noqa: ARG001  the handler's own signature
        if duty is None:
            raise RuntimeError("the enqueueing side runs no jobs")
        duty.region.ran(args["n"])
        if duty.hang:
            await asyncio.sleep(3600)

    return engine


async def _work(duty: Duty, audit: Audit) -> None:
    async with _engine(duty.dsn, duty, audit) as engine:
        await employ(engine.worker([TYPE], concurrency=duty.concurrency or None, insecure=True))


async def employ(worker: Worker) -> None:
    """Have a worker run in this process as `penstock worker` would."""
    settling = asyncio.create_task(settle_when_ready(worker))
    await worker.run()
    settling.cancel()


contestant = Penstock()
