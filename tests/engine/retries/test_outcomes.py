"""What a handler may say instead of failing: later, never, and what it may raise by accident."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from penstock import Cancel, Penstock, Schedule, Snooze
from penstock.testing import Harness
from tests.engine.looking import letter, waits

SURROGATE = "\ud800"


@pytest.mark.contract("C-08")
async def test_a_snooze_uses_no_attempt(app: Penstock) -> None:
    calls: list[int] = []

    @app.job("patient", attempts=1)
    async def patient(job: Any, args: Any) -> None:
        calls.append(job.attempt)
        if len(calls) <= 3:
            job.snooze(timedelta(minutes=10))

    async with Harness(app) as harness:
        job_id = await harness.enqueue("patient")
        await harness.drain()
        row = await harness.job(job_id)
        assert await waits(harness, job_id) == timedelta(minutes=10)
        assert (row["attempt_count"], row["last_error_code"], row["first_failure_at"]) == (0, None, None)
        await harness.work_until_idle()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"]) == ("completed", 0)
    assert calls == [1, 1, 1, 1]


@pytest.mark.contract("C-08")
@pytest.mark.parametrize("delay", [timedelta.max, 10**12, -5, timedelta(days=-1), "soon", float("inf")])
async def test_an_absurd_snooze_holds_up_nobody(app: Penstock, delay: Any) -> None:
    @app.job("absurd")
    async def absurd(job: Any, args: Any) -> None:
        if args:
            raise Snooze(delay)

    async with Harness(app) as harness:
        odd = await harness.enqueue("absurd", {"odd": True})
        plain = await harness.enqueue("absurd")
        await (await harness.worker()).work()
        assert await harness.status(plain) == "completed"
        assert await harness.status(odd) == "queued"


@pytest.mark.contract("C-06")
async def test_a_handler_may_cancel_its_job(app: Penstock) -> None:
    @app.job("useless")
    async def useless(job: Any, args: Any) -> None:
        job.cancel("the picture is gone; owner bob@example.org told us")

    async with Harness(app) as harness:
        job_id = await harness.enqueue("useless")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("canceled", 0, "CANCELED")
        assert row["last_error_message"].startswith("the picture is gone")
        assert "bob@example.org" not in row["last_error_message"]
        assert await harness.dead_letters() == []


async def test_the_words_of_a_private_type_are_not_kept(app: Penstock) -> None:
    @app.job("private", error_messages=False)
    async def private(job: Any, args: Any) -> None:
        raise Cancel("a secret")

    async with Harness(app) as harness:
        job_id = await harness.enqueue("private")
        await harness.drain()
        assert (await harness.job(job_id))["last_error_message"] == "canceled by its handler"


async def test_a_snooze_inside_a_task_group_is_still_a_snooze(app: Penstock) -> None:
    @app.job("grouped", attempts=1)
    async def grouped(job: Any, args: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleepy())

    async def sleepy() -> None:
        raise Snooze(timedelta(minutes=1))

    async with Harness(app) as harness:
        job_id = await harness.enqueue("grouped")
        await harness.drain()
        assert await waits(harness, job_id) == timedelta(minutes=1)
        assert (await harness.job(job_id))["attempt_count"] == 0


@dataclass
class Picture:
    picture_id: int


@pytest.mark.contract("E-06")
async def test_arguments_that_do_not_fit_go_to_dead_letter_at_once_and_show_nothing(app: Penstock) -> None:
    ran: list[Picture] = []

    @app.job("thumbnail", attempts=5)
    async def thumbnail(job: Any, args: Picture) -> None:
        ran.append(args)

    async with Harness(app) as harness:
        job_id = await app.pool.fetchval(
            "select penstock.enqueue('thumbnail', $1)", json.dumps({"picture_id": "no number, my secret"})
        )
        await harness.drain()
        dead = await letter(harness, job_id)
        assert (dead["error_class"], dead["reason"], dead["attempts"]) == ("SCHEMA_INVALID", "non_retryable", 1)
        assert "picture_id" in dead["last_stack"]
        assert "secret" not in dead["last_stack"] + dead["sanitized_context"]
    assert ran == []


@pytest.mark.contract("E-06")
@pytest.mark.parametrize("typed", [True, False])
async def test_json_deeper_than_python_reads_ends_in_a_dead_letter(app: Penstock, typed: bool) -> None:
    """Only SQL can enqueue it: the depth is capped at the edge of Python."""
    kind = dict[str, Any] if typed else None

    @app.job("deep", attempts=5, args=kind)
    async def deep(job: Any, args: Any) -> None:
        raise AssertionError

    async with Harness(app) as harness:
        nested = '{"a":' * 3000 + "1" + "}" * 3000
        job_id = await app.pool.fetchval("select penstock.enqueue('deep', $1)", nested)
        other = await harness.enqueue("deep")
        await harness.drain()
        assert (await letter(harness, job_id))["error_class"] == "SCHEMA_INVALID"
        assert await harness.status(other) != "processing"


@pytest.mark.contract("E-01")
@pytest.mark.parametrize(
    "message",
    ["a\x00b", SURROGATE, "\x1b[31mred", "x" * 5_000_000, "𝄞" * 10_000, "\u202e"],
    ids=["nul", "surrogate", "escape", "huge", "wide", "bidi"],
)
@pytest.mark.parametrize("last", [True, False], ids=["dies", "retries"])
async def test_whatever_an_error_says_the_job_reaches_its_next_status(app: Penstock, message: str, last: bool) -> None:
    @app.job("talks", attempts=1 if last else 2, backoff=Schedule([60]))
    async def talks(job: Any, args: Any) -> None:
        raise ConnectionError(message)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("talks")
        await harness.drain()
        row = await harness.job(job_id)
        assert row["status"] == ("failed" if last else "queued")
        assert len(row["last_error_message"]) < 2000


class Mute(Exception):
    """Raises when it is asked what it says."""

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


@pytest.mark.contract("E-01")
@pytest.mark.parametrize(
    "error",
    [
        Mute(),
        SystemExit(3),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopIteration(),
        RecursionError(),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("threaded", [False, True], ids=["async", "thread"])
async def test_no_exception_of_a_handler_takes_the_worker_along(
    app: Penstock, error: BaseException, threaded: bool
) -> None:
    if threaded:

        @app.job("wild", attempts=1)
        def wild(job: Any, args: Any) -> None:
            raise error
    else:

        @app.job("wild", attempts=1)
        async def wild_too(job: Any, args: Any) -> None:
            raise error

    @app.job("tame")
    async def tame(job: Any, args: Any) -> None: ...

    async with Harness(app) as harness:
        job_id = await harness.enqueue("wild")
        async with asyncio.timeout(10):
            await harness.drain()
            after = await harness.enqueue("tame")
            await harness.drain()
        assert (await harness.status(job_id), await harness.status(after)) == ("failed", "completed")
        assert (await letter(harness, job_id))["error_class"] == "RUNTIME_BUG"
