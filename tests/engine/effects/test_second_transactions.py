"""A stage ends with its one transaction: a second one, behind the first or inside it, is refused (C-60)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import Penstock
from penstock.contract.errors import SettingsInvalid
from penstock.testing import Harness
from tests.engine.effects.test_transactions import WRITE, written
from tests.engine.looking import letter

if TYPE_CHECKING:
    import asyncpg

    Owner = asyncpg.Connection[Any]


@pytest.mark.contract("C-60")
async def test_a_second_transaction_of_a_stage_is_refused(app: Penstock, owner: Owner) -> None:
    refused: list[str] = []

    @app.job("write")
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
        try:
            async with job.transaction() as tx:
                await tx.execute(WRITE, job.job_id, job.claim_seq)
        except SettingsInvalid as error:
            refused.append(str(error))

    async with Harness(app) as harness:
        await harness.enqueue("write")
        await harness.drain()
    assert "once in a handler" in refused[0]
    assert await written(owner) == 1


@pytest.mark.contract("C-60")
async def test_a_transaction_inside_another_is_refused_and_nothing_of_both_is_kept(app: Penstock, owner: Owner) -> None:
    @app.job("twice", attempts=1)
    async def twice(job: Any, args: Any) -> None:
        async with job.transaction() as outer:
            await outer.execute(WRITE, job.job_id, job.claim_seq)
            async with job.transaction() as inner:
                await inner.execute(WRITE, job.job_id, job.claim_seq)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("twice")
        await harness.drain()
        assert await harness.status(job_id) == "failed"
        assert "SettingsInvalid" in (await letter(harness, job_id))["last_stack"]
    assert await written(owner) == 0


@pytest.mark.contract("C-60")
async def test_who_bears_the_refusal_of_a_second_transaction_keeps_the_first(app: Penstock, owner: Owner) -> None:
    @app.job("twice", attempts=1)
    async def twice(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            with pytest.raises(SettingsInvalid, match="open in this handler already; pass its connection on"):
                await job.transaction().__aenter__()
            await tx.execute(WRITE, job.job_id, job.claim_seq)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("twice")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
    assert await written(owner) == 1
