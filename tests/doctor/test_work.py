"""The doctor and the work: silent workers, unreturned claims, jobs that nobody takes."""

from collections.abc import AsyncIterator

import pytest

from penstock import Penstock
from penstock.store import types as type_store
from penstock.store.doctor import Severity
from penstock.testing import Harness
from tests.doctor.conftest import Doctor


@pytest.fixture
async def h(dsn: str) -> AsyncIterator[Harness]:
    """An application with one type."""
    app = Penstock(dsn)

    @app.job("note")
    async def note() -> None: ...

    async with Harness(app) as harness:
        yield harness


async def test_due_jobs_that_no_live_worker_serves_are_found(doctor: Doctor, h: Harness) -> None:
    await h.enqueue("note")
    (found,) = await doctor("unserved_types")
    assert found.severity is Severity.ERROR
    assert "penstock worker --types note" in found.remedy
    await h.worker()
    assert await doctor("unserved_types") == []


async def test_a_worker_that_fell_silent_is_found(doctor: Doctor, h: Harness) -> None:
    await h.worker("quiet")
    assert await doctor("stale_workers") == []
    await h.crash("quiet")
    await h.pass_time(minutes=2)
    (found,) = await doctor("stale_workers")
    assert "quiet" in found.finding
    assert found.severity is Severity.WARNING


async def test_expired_claims_that_nobody_returns_are_found(doctor: Doctor, h: Harness) -> None:
    job_id = await h.enqueue("note")
    await h.app.pool.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'gone', "
        "claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '1 minute' where job_id = $1",
        job_id,
    )
    assert await doctor("unreaped_leases") == []
    await h.pass_time(minutes=3)
    (found,) = await doctor("unreaped_leases")
    assert found.severity is Severity.ERROR
    assert found.finding.startswith("1 jobs")


async def test_an_open_breaker_is_found_with_its_code(doctor: Doctor, h: Harness) -> None:
    for _ in range(5):
        await type_store.trip_breaker(h.app.pool, "note", "AUTH_DENIED")
    (found,) = await doctor("open_breakers")
    assert "AUTH_DENIED" in found.finding
    await type_store.close_breaker(h.app.pool, "note")
    assert await doctor("open_breakers") == []


async def test_a_pause_is_a_note_and_a_pause_with_jobs_behind_it_a_warning(doctor: Doctor, h: Harness) -> None:
    await type_store.pause(h.app.pool, "note", who="alice", why="release")
    assert [f.severity for f in await doctor("paused_types")] == [Severity.NOTE]
    await h.enqueue("note")
    (found,) = await doctor("paused_types")
    assert found.severity is Severity.WARNING
    assert "alice" in found.finding
    assert "penstock types resume note" in found.remedy
