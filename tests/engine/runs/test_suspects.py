"""Suspects in bounded runs: each alone, within the caps, and other jobs get their share."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from penstock.contract.contract_types import complaint_rewrite
from penstock.store import claims as store
from tests.engine.runs.conftest import TYPE, Build, Press


async def suspects_of(press: Press, count: int) -> list[UUID]:
    """Jobs that a run held when its process ended."""
    jobs = await press.fill(count)
    run = (await press.owner.fetchval("select gen_random_uuid()"),)[0]
    lease = complaint_rewrite(press.app.settings.active_profile()).lease
    claims = await store.take(press.owner, [TYPE], [lease], [store.START], limit=count, worker="gone", run=run)
    assert len(claims) == count
    await press.pass_time(seconds=lease.total_seconds() + 1)
    return jobs


class Company:
    """Who runs beside whom."""

    def __init__(self, press: Press) -> None:
        self._here: set[int] = set()
        self.beside: dict[int, set[int]] = {}
        press.provider.answer = self.call

    async def call(self, _job: Any, args: dict[str, Any]) -> None:
        self._here.add(args["n"])
        for n in self._here:
            self.beside.setdefault(n, set()).update(self._here - {n})
        await asyncio.sleep(0.002)
        self._here.discard(args["n"])


@pytest.mark.contract("C-13", "Q-78")
async def test_a_run_takes_suspects_one_by_one_and_the_others_together(press: Press) -> None:
    suspects = await suspects_of(press, 3)
    await press.fill(10, first=100)
    company = Company(press)

    run = await press.ran()

    assert (run.claimed, run.succeeded) == (13, 13)
    assert {company.beside[n].__len__() for n in range(3)} == {0}
    assert any(company.beside[n] for n in range(100, 110))
    assert {(await press.job(job_id))["run_id"] for job_id in suspects} == {run.run_id}


@pytest.mark.contract("C-13", "Q-51")
async def test_suspects_and_other_jobs_share_the_cap_of_a_run(build: Build) -> None:
    press = await build(max_jobs_per_run=6)
    await suspects_of(press, 10)
    await press.fill(10, first=100)

    run = await press.ran()

    assert run.claimed == 6
    assert sorted(press.provider.numbers()) == [0, 1, 2, 100, 101, 102]


@pytest.mark.contract("C-13")
async def test_a_run_with_nothing_but_suspects_uses_its_whole_cap(build: Build) -> None:
    press = await build(max_jobs_per_run=6)
    await suspects_of(press, 10)
    run = await press.ran()
    assert (run.claimed, sorted(press.provider.numbers())) == (6, [0, 1, 2, 3, 4, 5])
    assert (await press.records())[-1]["left_waiting_count"] == 4
