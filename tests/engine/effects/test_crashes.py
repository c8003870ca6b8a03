"""Workers that are really killed around an effect and around a commit."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.contract.crash import CrashPoint
from penstock.testing import Harness
from tests.crash import handlers
from tests.crash.campaign import Nursery, kill
from tests.engine.looking import until

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    Owner = asyncpg.Connection[Any]


@asynccontextmanager
async def killed_at(
    dsn: str, world: Path, job_type: str, point: CrashPoint
) -> AsyncIterator[tuple[Harness, UUID, Nursery]]:
    """One job, and a worker that died at *point* while it had it."""
    app = handlers.build(dsn, str(world))
    async with Harness(app) as harness, Nursery() as nursery:
        job_id = await harness.enqueue(job_type, {"n": 1})
        pid = await nursery.spawn(dsn=dsn, world=str(world), name="doomed", crash_at=str(point))
        async with asyncio.timeout(30):
            status = await nursery.exited(pid)
        assert os.WTERMSIG(status) == signal.SIGKILL
        yield harness, job_id, nursery


async def finished_by_another(harness: Harness, nursery: Nursery, dsn: str, world: Path, job_id: UUID) -> None:
    """A second process takes over once the lease is over."""
    await harness.pass_time(seconds=2)
    pid = await nursery.spawn(dsn=dsn, world=str(world), name="heir")
    await until(harness.app.pool, "status = 'completed' from penstock.jobs where job_id = $1", job_id)
    kill(pid, signal.SIGTERM)
    await nursery.exited(pid)


@pytest.mark.contract("C-61", "D-81")
@pytest.mark.parametrize(
    ("point", "happened", "tries"),
    [
        (CrashPoint.BEFORE_EFFECT_INTENT, 0, ["intend first", "mark done"]),
        (CrashPoint.AFTER_EFFECT_INTENT, 0, ["intend first", "intend again", "settle absent", "mark done"]),
        (CrashPoint.AFTER_EFFECT_PERFORMED, 1, ["intend first", "intend again", "settle found", "mark done"]),
        (CrashPoint.AFTER_EFFECT_MARKED, 1, ["intend first", "mark done"]),
    ],
    ids=lambda value: str(value) if isinstance(value, CrashPoint) else "",
)
async def test_a_worker_killed_around_an_effect_doubles_nothing(
    dsn: str, tmp_path: Path, point: CrashPoint, happened: int, tries: list[str]
) -> None:
    """Faults 4 and 5: at most one effect, whatever the moment of the kill."""
    world = tmp_path / "world"
    async with killed_at(dsn, world, "mail", point) as (harness, job_id, nursery):
        assert len(handlers.World(world).effects()) == happened
        await finished_by_another(harness, nursery, dsn, world, job_id)
        pool = harness.app.pool
        rows = await pool.fetch("select action || ' ' || outcome from penstock.effect_attempts order by attempt_id")
        assert [row[0] for row in rows] == tries
        assert (await harness.job(job_id))["attempt_count"] == 1
        assert await pool.fetchval("select state from penstock.effects") == "done"
    assert len(handlers.World(world).effects()) == 1


@pytest.mark.contract("C-60", "D-81", "D-84")
@pytest.mark.parametrize(
    ("point", "committed"),
    [(CrashPoint.BEFORE_TRANSACTION_COMMIT, False), (CrashPoint.AFTER_TRANSACTION_COMMIT, True)],
    ids=["before", "after"],
)
async def test_a_worker_killed_around_its_commit_leaves_all_or_nothing(
    dsn: str, tmp_path: Path, owner: Owner, point: CrashPoint, committed: bool
) -> None:
    world = tmp_path / "world"
    async with killed_at(dsn, world, "write", point) as (harness, job_id, nursery):
        assert await owner.fetchval("select count(*) from public.writes") == int(committed)
        assert await harness.status(job_id) == ("completed" if committed else "processing")
        await finished_by_another(harness, nursery, dsn, world, job_id)
        assert await owner.fetch("select job_id from public.writes") == [(job_id,)]


@pytest.mark.contract("E-26", "D-81")
async def test_a_worker_killed_between_two_stages_repeats_neither(dsn: str, tmp_path: Path) -> None:
    world = tmp_path / "world"
    async with killed_at(dsn, world, "staged", CrashPoint.AFTER_STAGE_SAVED) as (harness, job_id, nursery):
        row = await harness.job(job_id)
        assert (row["status"], row["stage"]) == ("processing", "notify")
        await finished_by_another(harness, nursery, dsn, world, job_id)
        fetched = "select attempts from penstock.job_stages where job_id = $1 and stage = 'fetch'"
        assert await harness.app.pool.fetchval(fetched, job_id) == 0
    assert len(handlers.World(world).effects()) == 1
