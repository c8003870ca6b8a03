"""Enqueue one by one, enqueue many, drain with one process and with two."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.contestant import Contestant
from bench.run import Run


async def enqueue(run: Run, contestant: Contestant) -> None:
    """One job per transaction, one after the other: the latency of a commit, mostly."""
    jobs = min(run.sizes.singles, run.share(contestant, run.sizes.singles * 2))
    async with (
        run.server.database(contestant) as database,
        contestant.client(run.server.dsn(database)) as client,
    ):
        await client.one(0)
        await run.calm()
        reading, began = run.reading(), time.perf_counter()
        for number in range(jobs):
            await client.one(number)
        rate = jobs / (time.perf_counter() - began)
        outside = reading.outside_since()
    run.measures.record(contestant.name, "enqueue", rate, outside=outside)
    run.say(contestant, f"enqueue {rate:,.0f}/s")


async def bulk(run: Run, contestant: Contestant) -> None:
    """Many jobs by the fastest call there is."""
    fast = contestant.share >= 1
    jobs = run.sizes.bulk if fast else run.share(contestant, run.sizes.bulk // 5)
    async with run.server.database(contestant) as database:
        await run.calm()
        reading = run.reading()
        rate = await run.enqueue(contestant, database, range(jobs))
        outside = reading.outside_since()
    run.measures.record(contestant.name, "bulk", rate, outside=outside)
    run.say(contestant, f"bulk {rate:,.0f}/s ({jobs:,} jobs)")


async def drain(run: Run, contestant: Contestant, crews: Sequence[int] = (1, 2)) -> None:
    """No-op jobs that were already waiting, for each number of worker processes in *crews*."""
    jobs = run.share(contestant, run.sizes.jobs)
    for processes in crews:
        async with run.server.database(contestant) as database:
            result = await run.drain(contestant, database, jobs, processes=processes)
        run.measures.record(contestant.name, f"drain{processes}", result.rate, outside=result.outside)
        if processes == 1:
            run.measures.record(contestant.name, "worker_us", result.worker_us, outside=result.outside)
            run.measures.record(contestant.name, "server_us", result.server_us, outside=result.outside)
        run.say(
            contestant,
            f"drain, {processes} process{'es' if processes > 1 else ''}: {result.rate:,.0f}/s ({jobs:,} jobs; "
            f"CPU {result.worker_us:,.0f} + {result.server_us:,.0f} µs/job; outside {result.outside:.0%})",
        )
