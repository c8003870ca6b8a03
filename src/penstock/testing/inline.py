"""A worker without a process: it works when told, in the caller's event loop."""

from __future__ import annotations

import asyncio

from penstock.engine.worker import Worker


class InlineWorker(Worker):
    """The parts of a worker process, driven by hand; no listener and no loop of its own."""

    async def open(self) -> None:
        """Connect, take the name, sync the types, start the heartbeat."""
        await self._open()

    async def work(self) -> int:
        """One look at everything that is due now, and wait for it; returns how many jobs were taken."""
        await self.fetcher.reap()
        await self.fetcher.look_at_gates()
        return await self.drain()

    async def crash(self) -> None:
        """Go without a word, as after kill -9: nothing is recorded or given back, leases run out by themselves."""
        self._stopping = self.fetcher.stopping = True
        self._pool.terminate()
        self.place.lender.cut()
        tasks = [r.task for r in self.place.held.values() if r.task is not None]
        for running in list(self.place.held.values()):
            running.task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.place.held.clear()
        self.heartbeat.stop()
        self.deadlines.close()
        self.executor.close()

    async def close(self) -> None:
        """Finish what runs, record it, free the name."""
        await self._shut_down()
