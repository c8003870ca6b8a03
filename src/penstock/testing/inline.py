"""A worker without a process: it works when told, in the caller's event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.contract.claims import Caps, Trigger
from penstock.engine.crew import Crew
from penstock.engine.fetcher import group_types
from penstock.engine.running import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.registry import JobType
    from penstock.settings import Settings


class InlineWorker(Crew):
    """The parts of a worker process, driven by hand: no listener, no loop of its own, scheduled types too."""

    brief = True

    def __init__(self, dsn: str, types: Sequence[JobType], settings: Settings, **options: Any) -> None:
        for job_type in types:
            job_type.require_handlers()
        super().__init__(dsn, types, settings, **options)
        self.groups = group_types(types)

    async def open(self) -> None:
        """Connect, take the name, sync the types, start the heartbeat."""
        await self._open()

    async def work(self) -> int:
        """One look at everything that is due now, and wait for it; returns how many jobs were taken."""
        await self.fetcher.reap()
        await self.fetcher.look_at_gates()
        return await self.drain()

    async def drain(self, trigger: Trigger = Trigger.ADMIN, cap: int | None = None) -> int:
        """Promote, claim and run one bounded run per group of types, and wait for it (D-41)."""
        total = 0
        for group in self.groups:
            await self.fetcher.promote(group.types)
            caps = group.drain if cap is None else Caps(cap, group.drain.runtime)
            total += (await self.fetcher.drain(group, trigger, caps)).claimed
        await self.settle()
        while cap is None and not self.fetcher.stopping and (count := await self.run_suspect(self.groups, trigger)):
            total += count
        if self.failure is not None:
            raise self.failure
        return total

    async def crash(self) -> None:
        """Go without a word, as after kill -9: nothing is recorded or given back, leases run out by themselves."""
        self.fetcher.stop()
        self._pool.terminate()
        self.place.lender.cut()
        running = [running for running in self.place.held.values() if running.task is not None]
        for one in running:
            one.stop = one.stop or Stop.LOST  # so that their handlers' ends are nobody's failures
        tasks = [one.task for one in running if one.task is not None]
        recorder = self.recorder._task  # noqa: SLF001 - a crash asks nobody
        await _end([*tasks, *([recorder] if recorder is not None else [])])
        self.place.held.clear()
        self.heartbeat.stop()
        self.deadlines.close()
        self.executor.close()

    async def close(self) -> None:
        """Finish what runs, record it, free the name."""
        if hasattr(self, "heartbeat"):
            await self._finish_work(self._settings.grace_seconds)
            await self._leave()
        else:
            await self._close_pool()


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
