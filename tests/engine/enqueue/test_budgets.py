"""One job may get a smaller budget than its type, and never a larger one."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.errors import EnqueueRefused
from tests.engine.enqueue.conftest import Office

TYPE_BUDGET = 5  # of a plain type


@pytest.mark.contract("C-11", "A-63")
@pytest.mark.parametrize(("asked", "stored"), [(None, TYPE_BUDGET), (1, 1), (3, 3), (TYPE_BUDGET, 5), (999, 5)])
async def test_the_smaller_of_the_two_budgets_is_stored(office: Office, asked: int | None, stored: int) -> None:
    mine = await office.app.enqueue("noop", {"n": 1}, attempts=asked)
    keyed = await office.app.enqueue("noop", {"n": 1}, key="k", attempts=asked)
    in_sql = await office.owner.fetchval("select penstock.enqueue('noop', '{\"n\": 1}', attempts => $1)", asked)

    assert [(await office.job(job_id))["max_attempts"] for job_id in (mine, keyed, in_sql)] == [stored] * 3


@pytest.mark.contract("C-11")
async def test_a_later_change_of_the_policy_leaves_a_stored_budget_alone(office: Office) -> None:
    job_id = await office.app.enqueue("noop", {"n": 1}, attempts=3)

    await office.owner.execute("update penstock.types set max_attempts = 2 where job_type = 'noop'")

    assert (await office.job(job_id))["max_attempts"] == 3


@pytest.mark.parametrize("attempts", [0, -1, 1001, True, "3", 1.5])
async def test_a_budget_that_is_none_is_refused_and_nothing_goes_in(office: Office, attempts: Any) -> None:
    with pytest.raises(EnqueueRefused, match="attempts is a whole number between 1 and 1000"):
        await office.app.enqueue("noop", {"n": 1}, attempts=attempts)

    assert await office.count() == 0
