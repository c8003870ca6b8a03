"""Memory of a worker over many jobs, and how soon a killed worker's jobs run again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from bench.contestant import Contestant
from bench.crew import Crew
from bench.run import Run

CONCURRENCY: Final = 100
PARTS: Final = 5
VICTIMS: Final = 20


async def memory(run: Run, contestants: Sequence[Contestant]) -> None:
    """Resident memory after the first job, after the first fifth, and at the end."""
    for contestant in [c for c in contestants if c.name == "penstock"]:
        async with run.server.database(contestant) as database:
            jobs, dsn = run.sizes.memory, run.server.dsn(database)
            crew = Crew.hire(run.home, contestant.name, dsn, jobs=jobs, concurrency=CONCURRENCY)
            async with crew:
                crew.release()
                await _fifths(run, contestant, database, crew, jobs)


async def _fifths(run: Run, contestant: Contestant, database: str, crew: Crew, jobs: int) -> None:
    readings = []
    for part in range(PARTS):
        numbers = range(jobs * part // PARTS, jobs * (part + 1) // PARTS)
        await run.enqueue(contestant, database, numbers)
        await crew.until(lambda: crew.board.total() >= numbers.stop, "memory", 300)  # noqa: B023  awaited here
        await run.finished(contestant, database)
        readings.append(crew.rss_megabytes())
    run.measures.record(contestant.name, "rss_busy", readings[0])
    run.measures.record(contestant.name, "rss_end", readings[-1])
    run.measures.record(contestant.name, "rss_growth", readings[-1] - readings[0])
    run.say(contestant, "RSS after each fifth: " + ", ".join(f"{mb:.1f}" for mb in readings) + " MB")


async def crash(run: Run, contestants: Sequence[Contestant]) -> None:
    """Kill -9 a worker in the middle of its jobs; how long until another has started all of them."""
    measures = run.measures
    for contestant in [c for c in contestants if c.name == "penstock"]:
        for measures.round in range(run.sizes.rounds):
            async with run.server.database(contestant) as database:
                seconds = await _rerun(run, contestant, database)
            run.measures.record(contestant.name, "rerun", seconds)
            run.measures.record(contestant.name, "rerun_over_lease", seconds - run.sizes.lease)
            run.say(contestant, f"rerun {seconds:.2f} s after the kill (lease {run.sizes.lease:.0f} s)")


async def _rerun(run: Run, contestant: Contestant, database: str) -> float:
    dsn, lease = run.server.dsn(database), run.sizes.lease
    victim = Crew.hire(run.home, contestant.name, dsn, jobs=VICTIMS, lease=lease, hang=True)
    survivor = Crew.hire(run.home, contestant.name, dsn, jobs=VICTIMS, lease=lease)
    async with survivor, victim:
        await run.enqueue(contestant, database, range(VICTIMS))
        victim.release()
        await victim.until(lambda: victim.board.total() >= VICTIMS, "victim", 60)
        survivor.release()
        killed = time.monotonic()
        victim.processes[0].kill()
        await survivor.until(lambda: survivor.board.total() >= VICTIMS, "rerun", lease * 10 + 60)
        return time.monotonic() - killed
