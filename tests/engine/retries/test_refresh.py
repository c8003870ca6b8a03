"""Credentials that expire: refreshed once, where there is a way (E-08)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Failed, FailureClass, Penstock, retry_once_refreshed
from penstock.testing import Harness
from tests.engine.looking import HttpError, letter


class Upstream:
    """An adapter's idea of a provider: the token is old until it is refreshed."""

    def __init__(self, *, mends: bool = True) -> None:
        self.fresh = False
        self.mends = mends
        self.calls = 0
        self.refreshes = 0

    async def call(self) -> str:
        self.calls += 1
        if not self.fresh:
            raise HttpError(401)
        return "done"

    async def refresh(self) -> None:
        self.refreshes += 1
        self.fresh = self.mends


@pytest.mark.contract("E-08")
async def test_an_expired_token_with_a_refresh_path_recovers_within_the_attempt(app: Penstock) -> None:
    upstream = Upstream()

    @app.job("calls")
    async def calls(job: Any, args: Any) -> None:
        assert await retry_once_refreshed(upstream.call, upstream.refresh) == "done"

    async with Harness(app) as harness:
        job_id = await harness.enqueue("calls")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"]) == ("completed", 0)
    assert (upstream.calls, upstream.refreshes) == (2, 1)


@pytest.mark.contract("E-08", "E-07")
@pytest.mark.parametrize("refresher", [True, False])
async def test_without_a_way_or_when_it_does_not_help_the_job_dies_at_once(app: Penstock, refresher: bool) -> None:
    upstream = Upstream(mends=False)

    @app.job("calls", attempts=5)
    async def calls(job: Any, args: Any) -> None:
        if refresher:
            await retry_once_refreshed(upstream.call, upstream.refresh)
        await upstream.call()

    async with Harness(app) as harness:
        job_id = await harness.enqueue("calls")
        await harness.work_until_idle()
        dead = await letter(harness, job_id)
        assert (dead["error_class"], dead["attempts"]) == ("AUTH_DENIED", 1)
    assert (upstream.calls, upstream.refreshes) == ((2, 1) if refresher else (1, 0))


@pytest.mark.contract("E-08", "E-07")
async def test_a_forbidden_call_is_not_a_matter_of_an_old_token() -> None:
    refreshed: list[bool] = []

    async def call() -> None:
        raise HttpError(403)

    async def refresh() -> None:
        refreshed.append(True)

    with pytest.raises(HttpError):
        await retry_once_refreshed(call, refresh)
    assert refreshed == []


@pytest.mark.contract("E-08")
async def test_other_failures_pass_through_untouched() -> None:
    async def call() -> None:
        raise Failed(FailureClass.UPSTREAM_5XX)

    async def refresh() -> None:
        raise AssertionError

    with pytest.raises(Failed):
        await retry_once_refreshed(call, refresh)
