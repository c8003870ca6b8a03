"""The slot of a unit: one output, by its own job, while its request waits for it."""

import json
from typing import Any

import asyncpg
import pytest

from penstock.apps.rewrite import repository
from penstock.contract.errors import LeaseLost
from penstock.store import claims
from penstock.store.roles import ORCHESTRATOR, WORKER
from tests.apps.rewrite.estate import Estate, Unit, routed

PUT = """
insert into rewrite.rewrite_outputs
select (jsonb_populate_record(null::rewrite.rewrite_outputs, jsonb_build_object(
           'rewrite_request_id', d.rewrite_request_id, 'recipient_user_id', d.recipient_user_id, 'home_id', d.home_id,
           'job_id', d.job_id, 'output_locale', d.target_locale, 'rewrite_response', 'x', 'eval_version', 'e1',
           'lexicon_version', 'x1', 'created_at', now()) || $2::jsonb)).*
  from rewrite.rewrite_jobs d where job_id = $1
"""


async def outputs(estate: Estate) -> int:
    count: int = await estate.owner.fetchval("select count(*) from rewrite.rewrite_outputs")
    return count


async def put(estate: Estate, unit: Unit, **changed: Any) -> None:
    await estate.owner.execute(PUT, unit.job, json.dumps(changed))


@pytest.mark.contract("L-41", "A-75", "A-04")
async def test_a_second_output_of_a_unit_is_nothing(estate: Estate) -> None:
    home = await estate.home()
    unit = await estate.completed(home, "the first")
    key = await estate.key(home.home_id)
    before = await estate.request_row(unit)
    async with estate.at(WORKER, home.home_id) as connection:
        assert await repository.slot_filled(connection, home.home_id, unit.request_id, home.recipient)
        assert not await estate.fill(connection, key, unit, "the second")
        assert not await repository.complete_request(connection, home.home_id, unit.request_id)
    with pytest.raises(asyncpg.UniqueViolationError):
        await put(estate, unit)
    async with estate.at(ORCHESTRATOR, home.home_id) as connection:
        stored = await repository.read_output(connection, key, home.home_id, unit.request_id)
    assert stored is not None
    assert stored.response.rewritten_text == "the first"
    assert stored.recipient_user_ids == (home.recipient,)
    assert await estate.request_row(unit) == before
    assert await outputs(estate) == 1


@pytest.mark.contract("L-41", "A-29")
async def test_a_stored_output_cannot_be_changed(estate: Estate) -> None:
    await estate.completed(await estate.home())
    for statement in ("update rewrite.rewrite_outputs set eval_version = 'e2'", "delete from rewrite.rewrite_outputs"):
        with pytest.raises(asyncpg.PostgresError, match="written once"):
            await estate.owner.execute(statement)


@pytest.mark.contract("A-31", "L-43", "A-49")
async def test_an_output_in_another_locale_than_the_target_is_refused(estate: Estate) -> None:
    unit, _ = await estate.claimed(await estate.home())
    for locale in ("en", "fr"):
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await put(estate, unit, output_locale=locale)
    await put(estate, unit)


@pytest.mark.contract("A-76", "A-55", "A-08")
@pytest.mark.parametrize("part", ["rewrite_request_id", "recipient_user_id", "home_id", "job_id"])
async def test_an_output_is_never_written_to_another_unit(estate: Estate, part: str) -> None:
    mine, _ = await estate.claimed(await estate.home())
    other, _ = await estate.claimed(await estate.home())
    foreign = {
        "rewrite_request_id": other.request_id, "recipient_user_id": other.home.recipient,
        "home_id": other.home.home_id, "job_id": other.job,
    }[part]  # fmt: skip
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await put(estate, mine, **{part: str(foreign)})
    assert await outputs(estate) == 0


@pytest.mark.contract("A-48", "A-76", "L-11", "A-06")
@pytest.mark.parametrize("end", ["failed", "canceled"])
async def test_a_unit_that_has_failed_takes_no_output(estate: Estate, end: str) -> None:
    unit, _ = await estate.claimed(await estate.home())
    if end == "failed":
        await estate.fail(unit)
    else:
        await estate.owner.execute("select penstock.cancel($1, 'op', null)", unit.job)
    with pytest.raises(asyncpg.PostgresError, match="does not wait for an output"):
        await put(estate, unit)
    assert await outputs(estate) == 0


@pytest.mark.contract("A-48", "A-06")
async def test_an_output_goes_with_the_transaction_of_a_job_that_fails(estate: Estate) -> None:
    unit, claim = await estate.claimed(await estate.home())
    key = await estate.key(unit.home.home_id)

    async def persist_and_lose_the_claim() -> None:
        async with estate.at(WORKER, unit.home.home_id) as connection:
            await estate.fill(connection, key, unit)
            await repository.complete_request(connection, unit.home.home_id, unit.request_id)
            await claims.finish(connection, "somebody else", claim)

    with pytest.raises(LeaseLost):
        await persist_and_lose_the_claim()
    await estate.fail(unit)
    assert await outputs(estate) == 0
    assert (await estate.request_row(unit))["status"] == "failed"


@pytest.mark.contract("A-67")
@pytest.mark.parametrize("column", ["eval_version", "lexicon_version", "rewrite_response", "output_locale"])
async def test_an_output_says_what_validated_it(estate: Estate, column: str) -> None:
    unit, _ = await estate.claimed(await estate.home())
    with pytest.raises(asyncpg.NotNullViolationError):
        await put(estate, unit, **{column: None})
    if column.endswith("version"):
        with pytest.raises(asyncpg.CheckViolationError):
            await put(estate, unit, **{column: ""})


async def test_an_output_waits_for_its_request_to_be_queued(estate: Estate) -> None:
    """A job that was enqueued and whose request was not marked has nothing to wait for."""
    home = await estate.home()
    unit = await estate.received(home)
    async with estate.at(ORCHESTRATOR, home.home_id) as connection:
        job_id = await estate.enqueue(connection, unit)
        await repository.insert_job(connection, home.home_id, unit.request_id, job_id, routed())
    await estate.claim()
    with pytest.raises(asyncpg.PostgresError, match="does not wait"):
        await put(estate, Unit(home, unit.frozen, unit.request, job_id))


async def test_a_refused_answer_leaves_versions_and_a_code(estate: Estate) -> None:
    unit, claim = await estate.claimed(await estate.home())
    versions = {"eval_version": "e1", "lexicon_version": "x1"}
    async with estate.at(WORKER, None) as connection:
        for _ in range(2):
            await repository.note_refusal(
                connection,
                unit.home.home_id,
                unit.job,
                attempt=claim.attempt_count + 1,
                code="LEXICON_BLOCKED",
                **versions,
            )
    rows = await estate.owner.fetch("select job_id, code, eval_version from rewrite.evaluation_failures")
    assert [tuple(row) for row in rows] == [(unit.job, "LEXICON_BLOCKED", "e1")]
    with pytest.raises(asyncpg.CheckViolationError):
        await estate.owner.execute(
            "insert into rewrite.evaluation_failures values ($1, 2, $2, 'you are loud', 'e', 'x')",
            unit.job,
            unit.home.home_id,
        )
