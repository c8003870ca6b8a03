"""Drain beside a long history, a long future, and somebody else's backlog; under a held snapshot.

Every value is a rate; the report divides it by the rate on an empty table of the same round.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from bench.contestant import Contestant
from bench.run import Run

ABLE: Final = ("limit", "penstock", "pgqueuer")


async def growth(run: Run, contestants: Sequence[Contestant]) -> None:
    """1M finished and 1M future jobs; then with the ready ones less urgent; then 100k of another type in front."""
    able, measures = [c for c in contestants if c.name in ABLE], run.measures
    async with AsyncExitStack() as stack:
        lived = {c.name: await stack.enter_async_context(_lived(run, c)) for c in able}
        crowded = {c.name: await stack.enter_async_context(_crowded(run, c)) for c in able}
        for measures.round in range(run.sizes.rounds):
            for contestant in able:
                await _empty(run, contestant)
                await _measure(run, contestant, lived[contestant.name], "growth")
                await _measure(run, contestant, lived[contestant.name], "growth_urgent", less_urgent=True)
                await _measure(run, contestant, crowded[contestant.name], "growth_others")


async def horizon(run: Run, contestants: Sequence[Contestant]) -> None:
    """Drain while a snapshot, older than 200,000 jobs that have finished since, is still held open."""
    able, measures = [c for c in contestants if c.name in ABLE], run.measures
    async with AsyncExitStack() as stack:
        free = {c.name: await stack.enter_async_context(_worn(run, c, held=False)) for c in able}
        held = {c.name: await stack.enter_async_context(_worn(run, c, held=True)) for c in able}
        for measures.round in range(run.sizes.rounds):
            for contestant in able:
                await _measure(run, contestant, free[contestant.name], "horizon_free")
                await _measure(run, contestant, held[contestant.name], "horizon_held")


@asynccontextmanager
async def _lived(run: Run, contestant: Contestant) -> AsyncIterator[str]:
    async with run.server.database(contestant) as database:
        dsn = run.server.superuser_dsn(database)
        await contestant.preload(dsn, finished=run.sizes.history, future=run.sizes.history)
        await _vacuum(run, database)
        run.say(contestant, f"{run.sizes.history:,} finished and {run.sizes.history:,} future jobs loaded")
        yield database


@asynccontextmanager
async def _crowded(run: Run, contestant: Contestant) -> AsyncIterator[str]:
    async with run.server.database(contestant) as database:
        await contestant.preload_others(run.server.superuser_dsn(database), run.sizes.others)
        await _vacuum(run, database)
        yield database


@asynccontextmanager
async def _worn(run: Run, contestant: Contestant, *, held: bool) -> AsyncIterator[str]:
    """A database through which many jobs went, with or without a snapshot from before them."""
    async with run.server.database(contestant) as database:
        holder = await run.server.connect(database)
        if held:
            await holder.execute("begin isolation level repeatable read")
            await holder.fetchval("select count(*) from pg_class")
        result = await run.drain(contestant, database, run.sizes.horizon)
        run.say(contestant, f"{'held' if held else 'free'}: {run.sizes.horizon:,} jobs at {result.rate:,.0f}/s")
        yield database
        await holder.close()


async def _vacuum(run: Run, database: str) -> None:
    connection = await run.server.connect(database)
    await connection.execute("vacuum analyze")
    await connection.close()


async def _empty(run: Run, contestant: Contestant) -> None:
    async with run.server.database(contestant) as database:
        await _measure(run, contestant, database, "growth_empty")


async def _measure(run: Run, contestant: Contestant, database: str, measure: str, *, less_urgent: bool = False) -> None:
    await run.guard(f"{measure} of {contestant.name}", _rate(run, contestant, database, measure, less_urgent))


async def _rate(run: Run, contestant: Contestant, database: str, measure: str, less_urgent: bool) -> None:
    jobs = max(200, round(run.sizes.jobs * contestant.growth_share))
    result = await run.drain(contestant, database, jobs, less_urgent=less_urgent)
    run.measures.record(contestant.name, measure, result.rate, outside=result.outside)
    run.say(contestant, f"{measure} {result.rate:,.0f}/s (outside {result.outside:.0%})")
