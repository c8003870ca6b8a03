"""The phases of a roll-out are settings, forward and back, while jobs keep coming."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import pkgutil
from typing import Any

import asyncpg
import pytest

import penstock.engine
import penstock.store
from penstock import Penstock
from penstock.contract.policies import Audit
from tests.engine.worker.conftest import Floor

PHASES = {
    1: {"PENSTOCK_NOTIFY": "off", "PENSTOCK_POLL_SECONDS": "2"},
    2: {"PENSTOCK_NOTIFY": "after_commit", "PENSTOCK_POLL_SECONDS": "2"},
    3: {"PENSTOCK_NOTIFY": "after_commit", "PENSTOCK_POLL_SECONDS": "30"},
}


@pytest.mark.contract("D-09", "D-72", "D-73", "D-71")
async def test_a_walk_through_the_phases_and_back_loses_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for phase in (1, 2, 3, 2, 1):
        for name, value in PHASES[phase].items():
            monkeypatch.setenv(name, value)
        assert await poked_in_a_phase(dsn) is (phase > 1)
    owner = await asyncpg.connect(dsn)
    assert await owner.fetchval("select array_agg(distinct status) from penstock.jobs") == ["completed"]
    assert await owner.fetchval("select count(*) from penstock.jobs") == 10
    await owner.close()


async def poked_in_a_phase(dsn: str) -> bool:
    """One job that waited for the worker and one that came while it ran; was anybody poked for the second?"""
    seen: asyncio.Queue[int] = asyncio.Queue()
    heard: list[str] = []
    listener = await asyncpg.connect(dsn)
    async with Penstock(dsn) as app:

        @app.job("echo")
        async def echo(job: Any, args: dict[str, int]) -> None:
            seen.put_nowait(args["n"])

        await app.enqueue("echo", {"n": 1})
        worker = app.worker(dsn=dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        async with asyncio.timeout(8):
            assert await seen.get() == 1
            await worker.ready.wait()
            await listener.add_listener("penstock_jobs", lambda *_: heard.append("poke"))
            await app.enqueue("echo", {"n": 2})
            assert await seen.get() == 2
        await worker.settle()
        worker.stop()
        await task
    await listener.fetchval("select 1")
    await listener.close()
    return bool(heard)


@pytest.mark.contract("C-04", "Q-18", "Q-26")
async def test_work_that_turns_out_to_be_nothing_still_passes_through_processing(floor: Floor) -> None:
    @floor.app.job("noop", audit=Audit.FULL)
    async def noop(job: Any, args: Any) -> None:
        """Nothing was left to do."""

    job_id = await floor.app.enqueue("noop")
    created = await floor.job(job_id)
    async with floor.working() as worker:
        await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id)
        await worker.settle()
    trail = await floor.owner.fetch(
        "select from_status, to_status from penstock.job_events where job_id = $1 order by event_id", job_id
    )
    assert [tuple(row) for row in trail] == [
        (None, "queued"),
        ("queued", "processing"),
        ("processing", "completed"),
    ]
    row = await floor.job(job_id)
    assert row["created_at"] == created["created_at"]
    assert row["updated_at"] > created["updated_at"]


@pytest.mark.contract("D-22")
async def test_id_attempts_latency_and_error_of_a_job_can_be_read_from_its_row(floor: Floor) -> None:
    @floor.app.job("fails", attempts=1)
    async def fails(job: Any, args: Any) -> None:
        raise TimeoutError

    job_id = await floor.app.enqueue("fails")
    async with floor.working() as worker:
        await floor.until("status = 'failed' from penstock.jobs where job_id = $1", job_id)
        await worker.settle()
    row = await floor.job(job_id)
    assert (row["job_id"], row["attempt_count"], row["last_error_code"]) == (job_id, 1, "NETWORK_TIMEOUT")
    assert row["created_at"] <= row["claimed_at"] <= row["finished_at"]


@pytest.mark.contract("D-94")
def test_each_part_of_the_design_has_its_module() -> None:
    """Migration, poke, listener, drain, poll, reclaim and observability; tests and the runbook stand beside them."""
    parts = [
        "penstock.store.migrate",
        "penstock.engine.pokes",
        "penstock.engine.listener",
        "penstock.engine.fetcher",
        "penstock.engine.worker",
        "penstock.engine.reaper",
        "penstock.telemetry.metrics",
        "penstock.telemetry.events",
    ]
    for name in parts:
        assert importlib.import_module(name).__doc__


@pytest.mark.contract("Q-06")
def test_what_picks_jobs_up_knows_no_provider() -> None:
    """Pickup and execution are separate: nothing in the engine or the store imports an adapter; its port will do."""
    for package in (penstock.engine, penstock.store):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if module.ispkg:
                continue
            source = importlib.util.find_spec(module.name)
            assert source is not None
            assert source.loader is not None
            text = source.loader.get_source(module.name)  # type: ignore[attr-defined]  # a source loader has it
            for adapter in ("penstock.providers", "import openai", "import anthropic", "google.genai"):
                assert adapter not in (text or "").replace("penstock.providers.port", ""), module.name
