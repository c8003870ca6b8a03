"""Pickup latency: from the commit of the enqueue to the first line of the handler, on an idle worker.

The commit's time is the server's own (`track_commit_timestamp`), because the call of an engine may
return before or after its worker was told. It is stamped just before the commit is flushed to disk,
so everybody's number contains that flush.
"""

from __future__ import annotations

import asyncio
import bisect
import random
import statistics
import time
from typing import Final

from bench.contestant import Client, Contestant
from bench.crew import Crew
from bench.run import Run

WARM_UP: Final = 5
PATIENCE: Final = 10.0  # seconds for all pickups of a slow contestant

_COMMITS: Final = """
select (extract(epoch from at) * 1e9)::bigint as at
  from generate_series($1::bigint, $2::bigint) as x, pg_xact_commit_timestamp(x::text::xid) as at
 where at is not null order by 1
"""
_XID: Final = "select pg_current_xact_id()::text::bigint % (2::bigint ^ 32)::bigint"


async def latency(run: Run, contestant: Contestant) -> None:
    """Wake an idle worker many times, one job at a time."""
    jobs = run.sizes.pickups + WARM_UP
    async with (
        run.server.database(contestant) as database,
        contestant.client(run.server.dsn(database)) as client,
        run.hire(contestant, database, jobs=jobs) as crew,
    ):
        crew.release()
        for number in range(WARM_UP):
            await _pick_up(crew, client, number)
        await asyncio.sleep(1.0)
        first = await run.server.admin.fetchval(_XID)
        await run.calm()
        reading = run.reading()
        calls = await _calls(crew, client, jobs)
        outside = reading.outside_since()
        last = await run.server.admin.fetchval(_XID)
        commits = [row["at"] for row in await run.server.admin.fetch(_COMMITS, first, last)]
        starts = {number: crew.board.started_at(number) for number in calls}
    _record(run, contestant, calls, starts, commits, outside)


async def _calls(crew: Crew, client: Client, jobs: int) -> dict[int, int]:
    """Wake the worker again and again, never while it is still busy; when each call was made."""
    calls: dict[int, int] = {}
    deadline = time.monotonic() + PATIENCE
    for number in range(WARM_UP, jobs):
        calls[number] = time.time_ns()
        await _pick_up(crew, client, number)
        await asyncio.sleep(random.uniform(0.005, 0.02))  # noqa: S311  spreads the calls, keeps no secret
        if time.monotonic() > deadline:
            break
    return calls


async def _pick_up(crew: Crew, client: Client, number: int) -> None:
    await client.wake(number)
    await crew.until(lambda: crew.board.started_at(number) > 0, "pickup", 60, every=0.001)


def _record(
    run: Run, contestant: Contestant, calls: dict[int, int], starts: dict[int, int], commits: list[int], outside: float
) -> None:
    picked, called = [], []
    for number, call in calls.items():
        at = bisect.bisect_left(commits, call)  # the first commit after the call is the enqueue's own
        if at < len(commits):
            picked.append(max(0, starts[number] - commits[at]) / 1e6)
        called.append((starts[number] - call) / 1e6)
    cuts = statistics.quantiles(picked, n=100, method="inclusive")
    run.measures.record(contestant.name, "pickup_p50", cuts[49], outside=outside)
    run.measures.record(contestant.name, "pickup_p99", cuts[98], outside=outside)
    run.measures.record(contestant.name, "call_p50", statistics.median(called), outside=outside)
    run.say(
        contestant,
        f"pickup p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms ({len(picked)} jobs; "
        f"from the call {statistics.median(called):.2f} ms)",
    )
