"""Handlers enqueue too: a follow-up belongs to the transaction that completes the job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock import Job
from penstock.store import puts
from tests.engine.enqueue.conftest import Office, working


@pytest.mark.contract("C-27")
async def test_a_follow_up_goes_in_with_the_completion_and_is_poked_for_after_it(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    arguments = puts.NewJob.arguments

    def spy(job: puts.NewJob, poke: bool) -> tuple[Any, ...]:
        told.append(poke)
        return arguments(job, poke)

    followed = asyncio.Event()

    @office.app.job("first")
    async def first(job: Job, args: dict[str, Any]) -> None:
        async with job.transaction() as tx:
            monkeypatch.setattr(puts.NewJob, "arguments", spy)
            await office.app.enqueue("second", {"of": str(job.job_id)}, key=str(job.job_id), connection=tx)

    @office.app.job("second")
    async def second(args: dict[str, Any]) -> None:
        followed.set()

    async with working(office.app, "first", "second"), asyncio.timeout(15):
        await office.app.enqueue("first", {})
        await followed.wait()

    assert told == [False], "the worker commits, so the poke need not burden the transaction"
    assert ("penstock_jobs", '{"job_type": "second"}') in await office.pokes()


async def test_a_follow_up_of_a_handler_that_fails_is_never_seen(office: Office) -> None:
    failed = asyncio.Event()

    @office.app.job("first", attempts=1)
    async def first(job: Job, args: dict[str, Any]) -> None:
        try:
            async with job.transaction() as tx:
                await office.app.enqueue("noop", {}, connection=tx)
                raise ValueError
        finally:
            failed.set()

    async with working(office.app, "first"), asyncio.timeout(15):
        await office.app.enqueue("first", {})
        await failed.wait()

    assert await office.count("noop") == 0
