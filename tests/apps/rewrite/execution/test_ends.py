"""Ends that no handler sees, and results that come too late: the request always follows its job."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from penstock.apps.rewrite.keyring import Keyring, new_key
from penstock.apps.rewrite.models import JOB_TYPE
from penstock.contract.calls import Answer
from penstock.contract.errors import LeaseLost
from penstock.store import claims
from penstock.store.roles import OPERATOR
from tests.apps.rewrite.conftest import Sent, World
from tests.apps.rewrite.rewriter import KINDLY
from tests.support.emulator import BATCH_SECONDS
from tests.support.suspects import take_suspect

DONE = ("completed", "completed", None)


async def cancel(world: World, role_dsn: Any, sent: Sent) -> None:
    """As an operator does."""
    operator = await asyncpg.connect(role_dsn(OPERATOR))
    await operator.fetchval("select penstock.cancel($1, 'op', 'enough')", (await world.job(sent))["job_id"])
    await operator.close()


@pytest.mark.contract("C-62", "A-12", "C-06")
@pytest.mark.parametrize("under_way", [False, True], ids=["queued", "in a batch"])
async def test_a_canceled_job_takes_its_request_along(world: World, role_dsn: Any, under_way: bool) -> None:
    sent, other = await world.send(await world.home()), await world.send(await world.home())
    if under_way:
        await world.run_submitter()
    await cancel(world, role_dsn, sent)

    assert (await world.ends(sent))[0][:2] == ("canceled", "canceled")
    await world.through()
    assert (await world.ends(sent))[0][:2] == ("canceled", "canceled")
    assert (await world.ends(other), await world.slots()) == ([DONE], 1)


@pytest.mark.contract("A-76", "C-35", "A-96")
async def test_a_result_for_a_job_that_waits_no_more_is_dropped(world: World, role_dsn: Any) -> None:
    home = await world.home()
    sent, other = await world.send(home), await world.send(home)
    await world.run_submitter()
    await cancel(world, role_dsn, sent)
    await world.pass_time(seconds=BATCH_SECONDS)
    await world.run_collector()

    assert (await world.output(sent), await world.slots()) == (None, 1)
    assert await world.ends(other) == [DONE]
    assert "late_result_dropped" in world.log.getvalue()
    assert await world.leaks(sent.canary, sent.echo) == []


@pytest.mark.contract("C-62", "C-13")
async def test_a_job_whose_workers_die_fails_with_its_request(world: World) -> None:
    sent = await world.send(await world.home())
    pool, lease = world.worker.app.pool, world.worker.app.types.get(JOB_TYPE).policy.lease
    taken = await claims.take(pool, [JOB_TYPE], [lease], [claims.START], limit=1, worker="doomed", run=sent.request_id)
    assert len(taken) == 1
    await world.pass_time(minutes=11)
    await claims.reap(pool, limit=10)
    assert len(await take_suspect(pool, [JOB_TYPE], worker="doomed", lease=lease)) == 1
    await world.pass_time(minutes=11)
    await claims.reap(pool, limit=10)

    assert await world.ends(sent) == [("failed", "failed", "LEASE_EXPIRED")]
    assert (await world.request(sent))["failure_code"] == "rewrite_unavailable"
    assert world.asked() == 0


@pytest.mark.contract("C-62", "C-05")
async def test_a_batch_that_never_ends_uses_up_the_budget_and_fails_the_request(world: World) -> None:
    sent = await world.send(await world.home())
    world.emulator.faults.add("stuck", state="in_progress")
    world.emulator.faults.add("cancel_keeps", done=0)
    for _ in range(2):
        await world.run_submitter()
        for _ in range(3):
            await world.pass_time(hours=26)
            await world.run_collector()

    assert (await world.ends(sent))[0][:2] == ("failed", "failed")
    assert await world.slots() == 0


@pytest.mark.contract("A-60", "L-49", "A-04", "A-95")
async def test_executing_a_unit_again_asks_nobody_and_changes_nothing(world: World) -> None:
    sent = await world.send(await world.home())
    await world.through()
    asked, job = world.asked(), await world.claimed(sent)
    before = await world.owner.fetchrow("select * from rewrite.rewrite_outputs")

    assert await world.worker.execution.build(job, sent.unit) is None
    answer = Answer("", {"rewritten_text": KINDLY["en"], "output_locale": "en"})
    assert await world.worker.execution.accept(job, sent.unit, answer) is None
    assert (await world.run_submitter()).skipped

    assert world.asked() == asked
    assert await world.owner.fetchrow("select * from rewrite.rewrite_outputs") == before


@pytest.mark.contract("A-75", "C-31")
async def test_a_second_completion_is_nothing_and_a_lost_claim_writes_nothing(world: World) -> None:
    sent = await world.send(await world.home())
    await world.run_submitter()
    parked = await world.claimed(sent)
    payload = await world.worker.execution.payload(parked, sent.unit)
    answer = Answer("", {"rewritten_text": KINDLY["en"], "output_locale": "en"})
    result = await world.worker.execution.accept(parked, sent.unit, answer)
    assert payload is not None
    await world.pass_time(seconds=BATCH_SECONDS)
    await world.run_collector()
    before = await world.owner.fetchrow("select * from rewrite.rewrite_outputs")

    with pytest.raises(LeaseLost):
        async with world.worker.in_home(sent.home.home_id) as connection:
            await world.worker.execution.persist(parked, sent.unit, result, connection)

    assert await world.owner.fetchrow("select * from rewrite.rewrite_outputs") == before
    assert await world.ends(sent) == [DONE]


async def test_a_missing_key_costs_time_and_no_message(world: World) -> None:
    sent = await world.send(await world.home())
    right, world.worker.keyring = world.worker.keyring, Keyring.of(new_key("another"))
    await world.run_submitter()
    assert await world.ends(sent) == [("queued", "queued", None)]
    assert [alert["kind"] for alert in await world.alerts()] == ["text_key_missing"]

    world.worker.keyring = right
    await world.pass_time(minutes=16)
    await world.through()
    assert await world.ends(sent) == [DONE]
