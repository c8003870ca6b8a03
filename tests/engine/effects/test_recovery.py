"""Intents in doubt: who may adopt them, and what a recovery may say about them (C-36)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest

from penstock import Penstock
from penstock.contract.errors import StepRefused
from penstock.store import claims
from penstock.store import effects as store
from penstock.testing import Harness
from tests.engine.looking import nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.contract.claims import Claim

LEASE = timedelta(minutes=5)
TOKEN = "t-1"  # noqa: S105 - the name of an effect, no secret


async def submitted(app: Penstock, harness: Harness, *, holds: bool = True, worker: str = "submitter") -> Claim:
    """A claim with an open intent, as a submitter leaves it when it dies."""
    await harness.enqueue("batch")
    [claim] = await claims.take(app.pool, ["batch"], [LEASE], [claims.START], limit=1, worker=worker, run=uuid4())
    intent = await store.intend(
        app.pool,
        worker,
        claim,
        effect_key=f"batch:submit:job:{claim.job_id}",
        kind="submit",
        token=TOKEN,
        holds_claim=holds,
        nonce=uuid4(),
    )
    assert intent.standing is store.Standing.FIRST
    return claim


async def adopt(app: Penstock, who: str = "recovery", older: timedelta = timedelta(0)) -> list[store.Open]:
    return await store.adopt(app.pool, "submit", recovery=who, lease=timedelta(minutes=1), older=older)


@pytest.mark.contract("C-36")
async def test_a_job_with_an_open_intent_is_left_alone_by_every_reaper(app: Penstock) -> None:
    app.job("batch")(nothing)
    async with Harness(app) as harness:
        claim = await submitted(app, harness)
        plain = await submitted(app, harness, holds=False)
        await harness.pass_time(minutes=6)

        reaped = [row["job_id"] for row in await claims.reap(app.pool)]

        assert reaped == [plain.job_id]
        assert await harness.status(claim.job_id) == "processing"
        wake = await claims.next_wake(app.pool, ["batch"])
        assert wake.expiry is None  # and no worker spins on a lease that nobody may reap


@pytest.mark.contract("C-36")
async def test_an_intent_that_was_found_stays_done_and_its_job_is_the_recovery_s_to_move(app: Penstock) -> None:
    app.job("batch")(nothing)
    async with Harness(app) as harness:
        claim = await submitted(app, harness)
        assert await adopt(app) == []  # its claim is alive
        await harness.pass_time(minutes=6)
        [intent] = await adopt(app)
        assert (intent.token, intent.job_id, intent.claim_seq) == (TOKEN, claim.job_id, claim.claim_seq)

        assert await store.found(app.pool, [intent.effect_key], recovery="recovery", result='{"batch": "b1"}') == {
            intent.effect_key
        }

        assert await store.open_intents(app.pool, "submit") == []
        assert [row["job_id"] for row in await claims.reap(app.pool)] == [claim.job_id]  # held no longer


@pytest.mark.contract("C-36")
async def test_only_a_proven_absence_requeues_and_charges_nothing(app: Penstock) -> None:
    app.job("batch")(nothing)
    async with Harness(app) as harness:
        claim = await submitted(app, harness)
        await harness.pass_time(minutes=6)
        [intent] = await adopt(app)
        assert await store.abandon(app.pool, [intent.effect_key], recovery="recovery") == {intent.effect_key}
        row = await harness.job(claim.job_id)
        assert (row["status"], row["attempt_count"], row["reclaim_count"], row["claimed_by"]) == ("queued", 0, 0, None)
        [again] = await claims.take(app.pool, ["batch"], [LEASE], [claims.START], limit=1, worker="next", run=uuid4())
        intent_again = await store.intend(
            app.pool,
            "next",
            again,
            effect_key=intent.effect_key,
            kind="submit",
            token=TOKEN,
            holds_claim=True,
            nonce=uuid4(),
        )
        assert intent_again.standing is store.Standing.ABSENT


@pytest.mark.contract("C-36")
async def test_two_recoveries_never_work_on_one_intent(app: Penstock) -> None:
    app.job("batch")(nothing)
    async with Harness(app) as harness:
        await submitted(app, harness)
        await harness.pass_time(minutes=6)
        [intent] = await adopt(app, "one")
        assert await adopt(app, "two") == []
        assert await store.abandon(app.pool, [intent.effect_key], recovery="two") == set()
        await harness.pass_time(minutes=2)  # the first has died
        assert [found.effect_key for found in await adopt(app, "two")] == [intent.effect_key]
        assert await store.found(app.pool, [intent.effect_key], recovery="one", result=None) == set()


@pytest.mark.contract("C-36")
async def test_a_recovery_may_wait_until_late_replies_are_in(app: Penstock) -> None:
    app.job("batch")(nothing)
    async with Harness(app) as harness:
        await submitted(app, harness)
        await harness.pass_time(minutes=6)
        assert await adopt(app, older=timedelta(minutes=10)) == []
        await harness.pass_time(minutes=5)
        assert len(await adopt(app, older=timedelta(minutes=10))) == 1


@pytest.mark.contract("C-36", "C-61")
async def test_another_job_does_not_take_over_an_intent_that_holds_its_claim(app: Penstock) -> None:
    app.job("batch")(nothing)
    async with Harness(app) as harness:
        first = await submitted(app, harness)
        await harness.pass_time(minutes=6)
        await harness.enqueue("batch")
        [other] = await claims.take(app.pool, ["batch"], [LEASE], [claims.START], limit=1, worker="w2", run=uuid4())
        intent = await store.intend(
            app.pool,
            "w2",
            other,
            effect_key=f"batch:submit:job:{first.job_id}",
            kind="submit",
            token=TOKEN,
            holds_claim=False,
            nonce=uuid4(),
        )
        assert intent.standing is store.Standing.BUSY


@pytest.mark.contract("C-61")
async def test_an_operator_settles_a_doubt_and_the_replay_goes_on(
    app: Penstock, role_dsn: Callable[[str], str]
) -> None:
    sent: list[str] = []

    @app.job("batch", attempts=1)
    async def batch(job: Any, args: Any) -> None:
        async def perform(token: str) -> None:
            sent.append(token)
            raise TimeoutError

        await job.effect("submit", perform=perform)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("batch")
        await harness.drain()
        key = await app.pool.fetchval("select effect_key from penstock.effects where job_id = $1", job_id)
        operator = await asyncpg.connect(role_dsn("penstock_operator"))
        assert await store.resolve(operator, key, happened=True, who="alex", result='{"id": 9}') == "done"
        assert await store.resolve(operator, key, happened=False, who="alex") == "done"  # said once
        assert await store.resolve(operator, "no such", happened=True, who="alex") is None
        await operator.close()
        worker = await asyncpg.connect(role_dsn("penstock_worker"))
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await store.resolve(worker, key, happened=True, who="a worker")
        await worker.close()
        assert [row["state"] for row in await store.of_job(app.pool, job_id)] == ["done"]


@pytest.mark.contract("C-61")
async def test_an_operator_cannot_settle_what_is_in_somebody_s_hand(app: Penstock) -> None:
    app.job("batch")(nothing)
    async with Harness(app) as harness:
        claim = await submitted(app, harness)
        with pytest.raises(StepRefused, match="right now"):
            await store.resolve(app.pool, f"batch:submit:job:{claim.job_id}", happened=True, who="alex")
