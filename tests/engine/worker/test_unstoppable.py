"""Coroutines that go on although they are cancelled: their jobs end, their slots are free, no process hangs."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine import crew, deadlines
from tests.support.processes import environment, start_penstock

if TYPE_CHECKING:
    from tests.engine.worker.conftest import Floor

STUBBORN = """
import asyncio
from penstock import Penstock

app = Penstock()

@app.job("stubborn")
async def stubborn(job, args):
    while True:
        try:
            await asyncio.sleep(60)
        except BaseException:
            pass
"""
PATIENCE = 15


class Stubborn:
    """A handler that keeps its cancellation to itself."""

    def __init__(self) -> None:
        self.release, self.entered = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Go on until released, but not for ever: a test that fails has to end."""
        self.entered.set()
        end = asyncio.get_running_loop().time() + PATIENCE
        while not self.release.is_set() and asyncio.get_running_loop().time() < end:
            try:
                async with asyncio.timeout_at(end):
                    await self.release.wait()
            except (asyncio.CancelledError, TimeoutError):
                continue


@pytest.mark.contract("C-63")
async def test_one_past_its_time_is_recorded_so_and_the_worker_recycles(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "UNHEARD", 0.1)
    handler = Stubborn()

    @floor.app.job("stubborn", attempts=1, timeout=timedelta(seconds=0.1))
    async def stubborn(job: Any, args: Any) -> None:
        await handler.run()

    stuck = await floor.app.enqueue("stubborn")
    async with floor.working(concurrency=1) as worker, asyncio.timeout(PATIENCE):
        await worker._stopped.wait()
        assert (worker.executor.abandoned, worker.recycle) == (1, True)
    row = await floor.job(stuck)
    assert (row["status"], row["last_error_code"], row["attempt_count"]) == ("failed", "HANDLER_TIMEOUT", 1)
    handler.release.set()


@pytest.mark.contract("C-63", "C-25")
async def test_one_that_outlives_the_grace_is_given_back(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "LAST_SECONDS", 0.1)
    floor.app.settings = floor.app.settings.model_copy(update={"grace_seconds": 0})
    handler = Stubborn()

    @floor.app.job("stubborn")
    async def stubborn(job: Any, args: Any) -> None:
        await handler.run()

    job_id = await floor.app.enqueue("stubborn")
    async with floor.working(), asyncio.timeout(PATIENCE):
        await handler.entered.wait()
    row = await floor.job(job_id)
    assert (row["status"], row["attempt_count"]) == ("queued", 0)
    handler.release.set()


@pytest.mark.contract("C-63")
async def test_its_process_ends_with_the_first_signal(floor: Floor, dsn: str, tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    more = {"PENSTOCK_GRACE_SECONDS": "0", "PYTHONPATH": str(tmp_path)}
    with start_penstock(["worker", "stubborn:app", "--insecure"], environment(dsn, more)) as process:
        await floor.until("exists (select from penstock.types where job_type = 'stubborn')", seconds=PATIENCE)
        job_id = await floor.owner.fetchval("select penstock.enqueue('stubborn')")
        await floor.until("status = 'processing' from penstock.jobs where job_id = $1", job_id, seconds=PATIENCE)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE) == 0
    assert (await floor.job(job_id))["status"] == "queued"
