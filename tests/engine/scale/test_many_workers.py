"""Eight processes on twenty thousand jobs: nobody runs what another one has."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from tests.engine.scale import crew

ROOT: Final = Path(__file__).resolve().parents[3]
WORKERS: Final = 8
JOBS: Final = 20_000


@pytest.mark.contract("D-51", "D-80", "D-10", "Q-62", "Q-03")
async def test_eight_workers_on_twenty_thousand_jobs_never_claim_one_twice(dsn: str, tmp_path: Path) -> None:
    async with crew.build(dsn, []) as app:
        await app.sync_types()
        ids = await app.enqueue_many("noted", [{"n": n} for n in range(JOBS)])
    workers = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.engine.scale.crew", dsn, str(tmp_path), str(WORKERS),
        cwd=ROOT, stdin=asyncio.subprocess.PIPE,
    )  # fmt: skip
    owner = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(90):
            while await owner.fetchval("select exists (select from penstock.jobs where finished_at is null)"):
                await owner.execute("select pg_sleep(0.1)")
    finally:
        await workers.communicate(b"")  # ends their input: they stop

    lists = _lists(tmp_path)
    ran = Counter(line for lines in lists for line in lines)
    assert workers.returncode == 0
    assert ran == Counter(f"{job_id} 1" for job_id in ids), "each job once, under its first claim"
    assert sum(len(lines) > 0 for lines in lists) > WORKERS // 2
    rows = await owner.fetch("select status, claim_seq, attempt_count, count(*) from penstock.jobs group by 1, 2, 3")
    assert [tuple(row) for row in rows] == [("completed", 1, 0, JOBS)]
    assert await owner.fetchval("select sum(succeeded_count) from penstock.runs") == JOBS
    await owner.close()


def _lists(folder: Path) -> list[list[str]]:
    """What each worker ran."""
    return [file.read_text().splitlines() for file in folder.iterdir()]
