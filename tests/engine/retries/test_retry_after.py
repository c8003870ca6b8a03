"""`Retry-After`: what an upstream may impose, and what it may not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from penstock import Failed, FailureClass, FullJitter, Penstock, Schedule
from penstock.testing import Harness
from tests.engine.looking import HttpError, waits


async def delay_after(app: Penstock, error: Exception, draw: float = 0.5, **policy: Any) -> float:
    """Seconds that a job waits after its first attempt raised *error*."""

    @app.job("called", **policy)
    async def called(job: Any, args: Any) -> None:
        raise error

    async with Harness(app) as harness:
        (await harness.worker()).place.random = lambda: draw
        job_id = await harness.enqueue("called")
        await harness.drain()
        return (await waits(harness, job_id)).total_seconds()


@pytest.mark.contract("E-03", "E-18", "C-15")
async def test_an_upstream_that_asks_for_two_minutes_gets_them(app: Penstock) -> None:
    assert await delay_after(app, HttpError(429, retry_after="120")) == 120


@pytest.mark.contract("E-18", "E-03")
async def test_an_upstream_that_asks_for_nothing_gets_our_backoff(app: Penstock) -> None:
    assert await delay_after(app, HttpError(429, retry_after="0")) == 0.5


@pytest.mark.contract("E-03", "E-16")
async def test_without_the_header_the_backoff_stands(app: Penstock) -> None:
    assert await delay_after(app, HttpError(429)) == 0.5


@pytest.mark.contract("E-19", "C-15")
async def test_nobody_makes_us_wait_longer_than_five_minutes(app: Penstock) -> None:
    assert await delay_after(app, HttpError(503, retry_after="3600")) == 300


@pytest.mark.contract("E-18")
async def test_an_http_date_is_read_against_the_upstream_s_own_clock(app: Penstock) -> None:
    """The upstream's clock is an hour off; its Date header makes that harmless."""
    there = datetime.now(UTC) - timedelta(hours=1)
    header = {"date": format_datetime(there, usegmt=True)}
    header["retry_after"] = format_datetime(there + timedelta(seconds=90), usegmt=True)
    assert await delay_after(app, HttpError(429, **header)) == 90


@pytest.mark.contract("E-18")
async def test_an_http_date_alone_is_read_against_our_clock(app: Penstock) -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True)
    assert 100 < await delay_after(app, HttpError(429, retry_after=moment)) <= 120


@pytest.mark.contract("E-18")
async def test_a_date_that_has_passed_is_no_wait(app: Penstock) -> None:
    assert await delay_after(app, HttpError(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")) == 0.5


@pytest.mark.contract("C-15", "Q-68")
async def test_an_exact_schedule_does_not_listen(app: Penstock) -> None:
    assert await delay_after(app, HttpError(429, retry_after="120"), backoff=Schedule([30])) == 30


@pytest.mark.contract("C-15", "E-19")
async def test_the_ceiling_never_shortens_a_delay_of_our_own(app: Penstock) -> None:
    policy = Schedule([7200], honours_retry_after=True)
    assert await delay_after(app, HttpError(429, retry_after="60"), backoff=policy) == 7200


@pytest.mark.contract("C-15")
@pytest.mark.parametrize(("asked", "waited"), [("120", 120), ("3600", 300), ("10", 30)])
async def test_a_schedule_may_be_lengthened_where_its_type_says_so(app: Penstock, asked: str, waited: int) -> None:
    policy = Schedule([30], honours_retry_after=True)
    assert await delay_after(app, HttpError(429, retry_after=asked), backoff=policy) == waited


@pytest.mark.contract("E-18", "E-03")
async def test_a_handler_may_say_itself_how_long_to_wait(app: Penstock) -> None:
    error = Failed(FailureClass.RATE_LIMITED, retry_after=timedelta(seconds=42))
    assert await delay_after(app, error) == 42


@pytest.mark.contract("E-16", "E-02")
@pytest.mark.parametrize(
    "error",
    [TimeoutError(), ConnectionResetError(), HttpError(502), HttpError(503), HttpError(504), HttpError(500)],
    ids=lambda error: str(error) or type(error).__name__,
)
async def test_every_retryable_failure_waits_by_the_same_rule(app: Penstock, error: Exception) -> None:
    assert await delay_after(app, error, draw=0.75, backoff=FullJitter(4, 2.0, 60)) == 3
