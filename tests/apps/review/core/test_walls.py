"""What another login could do to reviews, if keys of redeliveries or numbers of locks could be guessed."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import asyncpg
import pytest

from penstock.store.roles import FRONTEND, ORCHESTRATOR, WORKER
from tests.apps.review.core.conftest import World
from tests.support.squatters import squatter, unhindered

PUT = "select penstock.enqueue('review_processing', jsonb_build_object('review_id', $1::uuid), $2)"


async def refused(world: World, dsn: str, review_id: UUID, *numbers: object) -> None:
    """No key with one of *numbers* makes a job: the transaction that would is not committed."""
    before = await world.owner.fetch("select job_id from penstock.jobs")
    caller = await asyncpg.connect(dsn)
    for number in numbers:
        transaction = caller.transaction()
        await transaction.start()
        assert await caller.fetchval(PUT, review_id, f"{review_id}#redeliver-{number}") is not None
        with pytest.raises(asyncpg.PostgresError, match="belongs to no review") as error:
            await transaction.commit()
        assert error.value.sqlstate == "PS001"
    await caller.close()
    assert await world.owner.fetch("select job_id from penstock.jobs") == before


@pytest.mark.contract("C-68", "N-28")
@pytest.mark.parametrize("role", [ORCHESTRATOR, WORKER])
async def test_a_guessed_key_of_a_redelivery_makes_nothing(
    world: World, role_dsn: Callable[[str], str], role: str
) -> None:
    made = await world.create()
    review_id, dsn = made.review.review_id, role_dsn(role)
    await refused(world, dsn, review_id, 0, 1, "", "x")
    await world.succeed(made)
    await refused(world, dsn, review_id, 0, 1, 2, "")

    await world.clear_delivery()
    await refused(world, dsn, review_id, 0, 2, "1x", "01", "")
    caller = await asyncpg.connect(dsn)
    job_id = await caller.fetchval(PUT, review_id, f"{review_id}#redeliver-1")
    await caller.close()
    await world.harness.work_until_idle()
    assert await world.harness.status(job_id) == "completed", "the control: the one that is due"
    assert (world.channel.sends, len(world.channel.sent)) == (2, 1)
    await refused(world, dsn, review_id, 2)


@pytest.mark.contract("C-68", "C-47")
async def test_a_lock_that_another_login_can_work_out_holds_no_creation_up(
    world: World, role_dsn: Callable[[str], str]
) -> None:
    names = "review:key:k1", "review:changelist:shop:4f1c2aa"
    async with squatter(role_dsn(FRONTEND), world.owner) as frontend:
        for name in names:
            await frontend.take("hashtextextended($1::text, 0)", name)
        assert (await unhindered(world.create())).created
        for name, key in zip(names, ("k1", "k2"), strict=True):
            await frontend.take_as_known("penstock.lock_key($1)", name)
            assert not (await frontend.hinders(world.create(key))).created, "the control: this is the lock"
