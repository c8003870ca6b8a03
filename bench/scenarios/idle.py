"""What a worker costs that has nothing to do: transactions, its own processor time, the server's.

All contestants idle side by side, each on its own database, so that three windows of half a minute do
not take the afternoon. Autovacuum is paused meanwhile: it visits every database and would be counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from bench.contestant import Contestant
from bench.crew import Crew, cpu_of
from bench.run import Run

SETTLE: Final = 12.0  # seconds after the first job, so that start-up and the statistics' delay are over


@dataclass(frozen=True, slots=True)
class _Idler:
    contestant: Contestant
    database: str
    crew: Crew


async def idle(run: Run, contestants: Sequence[Contestant]) -> None:
    """One job each to warm up, then windows of silence."""
    measures = run.measures
    async with AsyncExitStack() as stack:
        idlers = [await _start(run, stack, contestant) for contestant in contestants]
        await _autovacuum(run, "off")
        stack.push_async_callback(_autovacuum, run, "on")
        await asyncio.sleep(SETTLE)
        for measures.round in range(run.sizes.rounds):
            await _window(run, idlers)
        for idler in idlers:
            run.measures.record(idler.contestant.name, "rss", idler.crew.rss_megabytes())
    for contestant in contestants:
        xacts, cpu = (run.measures.spread(contestant.name, m) for m in ("idle_xact", "idle_cpu"))
        if xacts and cpu:
            run.say(contestant, f"idle {xacts.median:.2f} xact/s, {cpu.median:.2f} % of a core")


async def _start(run: Run, stack: AsyncExitStack, contestant: Contestant) -> _Idler:
    database = await stack.enter_async_context(run.server.database(contestant))
    crew = await stack.enter_async_context(run.hire(contestant, database, jobs=8))
    crew.release()
    async with contestant.client(run.server.dsn(database)) as client:
        await client.wake(0)
        await crew.until(lambda: crew.board.total() > 0, "first job", 60)
    return _Idler(contestant, database, crew)


async def _autovacuum(run: Run, state: str) -> None:
    await run.server.admin.execute(f"alter system set autovacuum = {state}")
    await run.server.admin.execute("select pg_reload_conf()")


async def _window(run: Run, idlers: Sequence[_Idler]) -> None:
    before = [await _reading(run, idler) for idler in idlers]
    await asyncio.sleep(run.sizes.idle_seconds)
    for idler, (xacts, worker, backends) in zip(idlers, before, strict=True):
        xacts_now, worker_now, backends_now = await _reading(run, idler)
        name, seconds = idler.contestant.name, run.sizes.idle_seconds
        server = sum(used - backends.get(pid, 0.0) for pid, used in backends_now.items())
        run.measures.record(name, "idle_xact", (xacts_now - xacts) / seconds)
        run.measures.record(name, "idle_cpu", (worker_now - worker) / seconds * 100)
        run.measures.record(name, "idle_server_cpu", server / seconds * 100)


async def _reading(run: Run, idler: _Idler) -> tuple[int, float, dict[int, float]]:
    return (
        await run.server.transactions(idler.database),
        idler.crew.cpu_seconds(),
        cpu_of(await run.server.backends(idler.database)),
    )
