"""What a handler raises may be code of anybody's: whatever it does when it is looked at, its job comes to an end."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Cancel, Penstock, Schedule, Snooze
from penstock.engine.batches.accepting import refused
from penstock.testing import Harness
from tests.engine.looking import letter


class NoArguments(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise RuntimeError("a secret")


class Leaving(Exception):
    @property
    def status_code(self) -> int:
        raise SystemExit


class NoMembers(ExceptionGroup[Exception]):
    @property
    def exceptions(self) -> Any:
        raise RuntimeError("a secret")


class NoDelay(Snooze):
    def __init__(self) -> None:
        pass


@pytest.mark.contract("E-01", "E-11")
@pytest.mark.parametrize(
    "error",
    [
        NoArguments(),
        Leaving(),
        NoMembers("none", [ValueError()]),
        NoDelay(),
        Snooze(float("nan")),  # type: ignore[arg-type]
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_exception_that_cannot_be_read_ends_its_job_as_a_bug_of_the_handler(
    app: Penstock, error: Exception
) -> None:
    @app.job("odd", attempts=1, error_messages=False)
    async def odd(job: Any, args: Any) -> None:
        raise error

    async with Harness(app) as harness:
        job_id = await harness.enqueue("odd")
        await harness.drain()
        dead = await letter(harness, job_id)
        assert (dead["error_class"], dead["attempts"]) == ("RUNTIME_BUG", 1)
        assert type(error).__name__ in dead["last_stack"]
        assert "secret" not in dead["last_stack"]


@pytest.mark.contract("E-01")
def test_an_accept_that_cannot_be_read_has_refused_its_item_and_no_other() -> None:
    refusal = refused(Snooze(float("nan")))  # type: ignore[arg-type]

    assert (refusal.failure.error_class, refusal.snooze) == ("RUNTIME_BUG", None)


@pytest.mark.contract("C-06")
async def test_a_cancel_that_cannot_say_why_is_one_all_the_same(app: Penstock) -> None:
    class Mute(Cancel):
        def __str__(self) -> str:
            raise RuntimeError

    @app.job("mute")
    async def mute(job: Any, args: Any) -> None:
        raise Mute

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mute")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["last_error_message"]) == ("canceled", "canceled by its handler")


@pytest.mark.contract("E-03")
@pytest.mark.parametrize("wait", [-(10**400), 10**400, float("nan"), float("-inf")], ids=["past", "far", "nan", "-inf"])
async def test_a_wait_beyond_all_sense_leaves_a_rate_limit_what_it_is(app: Penstock, wait: float) -> None:
    class Throttled(Exception):
        status_code = 429
        retry_after = wait

    @app.job("throttled", attempts=3, backoff=Schedule([10]))
    async def throttled(job: Any, args: Any) -> None:
        raise Throttled

    async with Harness(app) as harness:
        job_id = await harness.enqueue("throttled")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("queued", 1, "RATE_LIMITED")
