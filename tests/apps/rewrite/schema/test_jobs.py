"""Jobs of this type: how one begins, what its detail keeps, and how its end reaches its request."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from penstock.apps.rewrite import repository
from penstock.apps.rewrite.models import JOB_TYPE
from penstock.store import claims
from penstock.store.roles import FRONTEND, OPERATOR, ORCHESTRATOR, WORKER
from tests.apps.rewrite.estate import HELD_BY, Estate, Unit, death, routed
from tests.support.suspects import take_suspect

PUT = "select penstock.enqueue('complaint_rewrite', $1::jsonb, key => $2)"
DETAIL = """
insert into rewrite.rewrite_jobs
select (jsonb_populate_record(null::rewrite.rewrite_jobs, jsonb_build_object(
           'job_id', gen_random_uuid(), 'rewrite_request_id', r.rewrite_request_id, 'home_id', r.home_id,
           'sender_user_id', r.sender_user_id, 'recipient_user_id', r.recipient_user_id,
           'recipient_snapshot_id', r.recipient_snapshot_id,
           'recipient_preference_snapshot_id', r.recipient_preference_snapshot_id, 'source_locale', r.source_locale,
           'target_locale', r.target_locale, 'lane', r.lane, 'created_at', now(), 'routing_decision', $2::jsonb)
           || $3::jsonb)).*
  from rewrite.rewrite_requests r where rewrite_request_id = $1
"""
ROUTE = json.loads(routed().model_dump_json())


def payload(unit: Unit, **changed: Any) -> str:
    ids: dict[str, Any] = {
        "rewrite_request_id": str(unit.request_id),
        "recipient_user_id": str(unit.home.recipient),
        "home_id": str(unit.home.home_id),
    }
    return json.dumps(ids | changed)


def key(unit: Unit) -> str:
    return f"{unit.request_id}:{unit.home.recipient}"


async def jobs(estate: Estate) -> int:
    count: int = await estate.owner.fetchval("select count(*) from penstock.jobs")
    return count


async def detail(estate: Estate, unit: Unit, route: dict[str, Any], **changed: Any) -> str | None:
    """The SQLSTATE that such a detail is refused with; None: it was taken, and is taken back."""
    transaction = estate.owner.transaction()
    await transaction.start()
    try:
        await estate.owner.execute(DETAIL, unit.request_id, json.dumps(route), json.dumps(changed))
    except asyncpg.PostgresError as error:
        return error.sqlstate
    finally:
        await transaction.rollback()
    return None


# ---------------------------------------------------------------------- its beginning


@pytest.mark.contract("A-35", "L-18")
@pytest.mark.parametrize("role", [WORKER, FRONTEND, OPERATOR])
async def test_only_the_orchestrator_enqueues(estate: Estate, role: str) -> None:
    """Also where the type names no role, and by an operator who may write the rows of replays."""
    await estate.owner.execute("update penstock.types set enqueue_role = null")
    unit = await estate.received(await estate.home())
    direct = (
        "insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, max_attempts, job_type, stage, "
        "idempotency_key, payload) values (gen_random_uuid(), now(), now(), now(), true, 2, 'complaint_rewrite', "
        "'rewrite', 'complaint_rewrite:' || $2, $1::jsonb)"
    )
    connection = await estate.login(role)
    for statement in (PUT, direct):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement, payload(unit), key(unit))
    assert await jobs(estate) == 0
    orchestrator = await estate.login(ORCHESTRATOR)
    await orchestrator.execute(PUT, payload(unit), key(unit))
    assert await jobs(estate) == 1


@pytest.mark.contract("A-36")
async def test_a_job_is_refused_while_its_message_is_not_persisted(estate: Estate) -> None:
    unit = await estate.received(await estate.home())
    connection = await estate.login(ORCHESTRATOR)
    nobody = str(uuid4())
    for changed in ({"rewrite_request_id": nobody}, {"home_id": nobody}):
        ids = json.loads(payload(unit, **changed))
        with pytest.raises(asyncpg.PostgresError, match="there is no request"):
            await connection.execute(PUT, json.dumps(ids), f"{ids['rewrite_request_id']}:{ids['recipient_user_id']}")
    missing = Unit(unit.home, repository.Frozen(uuid4(), uuid4(), uuid4(), unit.frozen.created_at, None), unit.request)
    async with estate.at(ORCHESTRATOR, unit.home.home_id) as tx:
        assert not await repository.insert_job(tx, unit.home.home_id, missing.request_id, uuid4(), routed())
    assert await detail(estate, unit, ROUTE, rewrite_request_id=nobody) == "23503"
    assert await jobs(estate) == 0


@pytest.mark.contract("A-33", "L-45", "C-39", "A-83")
@pytest.mark.parametrize(
    "changed",
    [{"message_text": "turn it down"}, {"home_id": "turn it down"}, {"recipient_user_id": None}, {"home_id": {"a": 1}}],
)
async def test_a_payload_is_three_ids_and_nothing_else_fits(estate: Estate, changed: dict[str, Any]) -> None:
    unit = await estate.received(await estate.home())
    connection = await estate.login(ORCHESTRATOR)
    with pytest.raises(asyncpg.PostgresError, match="three ids") as caught:
        await connection.execute(PUT, payload(unit, **changed), key(unit))
    assert "turn it down" not in str(caught.value)
    with pytest.raises(asyncpg.PostgresError, match="its key is its unit"):
        await connection.execute(PUT, payload(unit), "another key")
    columns = await estate.owner.fetch(
        "select column_name from information_schema.columns where table_schema = 'rewrite' "
        "and table_name = 'rewrite_jobs' and data_type in ('bytea', 'jsonb') order by 1"
    )
    assert [row[0] for row in columns] == ["routing_decision"]


@pytest.mark.contract("A-37", "Q-40", "A-27", "L-15")
async def test_a_second_enqueue_of_a_unit_finds_the_first_job(estate: Estate) -> None:
    unit = await estate.queued(await estate.home())
    async with estate.at(ORCHESTRATOR, unit.home.home_id) as connection:
        again = await estate.enqueue(connection, unit)
        assert not await repository.insert_job(connection, unit.home.home_id, unit.request_id, again, routed())
    assert again == unit.job
    assert await jobs(estate) == 1
    assert await detail(estate, unit, ROUTE) == "23505"


@pytest.mark.contract("A-74")
async def test_a_failed_unit_is_not_enqueued_again(estate: Estate) -> None:
    unit, _ = await estate.claimed(await estate.home())
    await estate.fail(unit)
    async with estate.at(ORCHESTRATOR, unit.home.home_id) as connection:
        assert await estate.enqueue(connection, unit) == unit.job
        assert not await repository.mark_queued(connection, unit.home.home_id, unit.request_id)
    assert (await estate.job_row(unit))["status"] == "failed"
    assert await jobs(estate) == 1


# -------------------------------------------------------------------------- its detail


@pytest.mark.contract("A-28", "L-42", "C-40")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("home_id", None), ("sender_user_id", None), ("recipient_user_id", None), ("recipient_snapshot_id", None),
        ("recipient_preference_snapshot_id", None), ("source_locale", "fr"), ("target_locale", "fr"),
        ("lane", "same_language"),
    ],
)  # fmt: skip
async def test_a_detail_agrees_with_its_request_in_every_part(estate: Estate, column: str, value: str | None) -> None:
    unit = await estate.received(await estate.home())
    assert await detail(estate, unit, ROUTE) is None
    assert await detail(estate, unit, ROUTE, **{column: value or str(uuid4())}) == "23503"


@pytest.mark.contract("C-40", "A-65", "L-56", "L-71", "L-15")
async def test_a_retry_keeps_route_locales_and_lane(estate: Estate) -> None:
    unit, claim = await estate.claimed(await estate.home())
    before = await estate.owner.fetchrow("select * from rewrite.rewrite_jobs")
    assert before is not None
    for column in before.keys():  # noqa: SIM118 - a record is no mapping
        with pytest.raises(asyncpg.PostgresError, match="written once"):
            await estate.owner.execute(f"update rewrite.rewrite_jobs set {column} = {column}")
    with pytest.raises(asyncpg.PostgresError, match="written once"):
        await estate.owner.execute("delete from rewrite.rewrite_jobs")
    back = claims.Requeue(claim, timedelta(0), charged=True, code="NETWORK_TIMEOUT")
    assert await claims.requeue(await estate.login(WORKER), HELD_BY, [back]) == []
    (again,) = await estate.claim()
    assert (again.job_id, again.attempt_count) == (unit.job, 1)
    assert await estate.owner.fetchrow("select * from rewrite.rewrite_jobs") == before


@pytest.mark.contract("Q-32", "Q-33", "Q-36", "Q-37", "Q-38")
@pytest.mark.parametrize(
    ("member", "values"),
    [
        ("provider", ["aws", "", None, 1]), ("adapter_kind", ["", None]), ("base_url", ["", 5]),
        ("model", ["", None, 7]), ("prompt_version", ["", None]), ("policy_version", ["", None]),
        ("execution_mode", ["sync", None]), ("cache_eligible", ["yes", None]), ("max_retries", ["2", None]),
    ],
)  # fmt: skip
async def test_a_stored_route_has_its_nine_members_each_of_its_kind(
    estate: Estate, member: str, values: list[Any]
) -> None:
    unit = await estate.received(await estate.home())
    assert await detail(estate, unit, ROUTE) is None
    assert len(ROUTE) == 9
    for value in values:
        assert await detail(estate, unit, ROUTE | {member: value}) == "23514", value
    assert await detail(estate, unit, {name: ROUTE[name] for name in ROUTE if name != member}) == "23514"


@pytest.mark.contract("Q-41")
@pytest.mark.parametrize(
    "extra",
    [
        {"message_text": "x"},
        {"model": "turn it down"},
        {"model": "音を下げて"},
        {"base_url": "https://x/ turn it down"},
    ],
)
async def test_no_message_fits_into_a_stored_route(estate: Estate, extra: dict[str, str]) -> None:
    unit = await estate.received(await estate.home())
    assert await detail(estate, unit, ROUTE | extra) == "23514"
    assert await detail(estate, unit, ROUTE | {"base_url": "https://gateway.example/v1?a=b"}) is None


@pytest.mark.contract("A-32", "L-44", "C-35")
async def test_the_first_provider_batch_of_a_job_is_kept(estate: Estate) -> None:
    unit, _ = await estate.claimed(await estate.home())
    worker = await estate.login(WORKER)
    put = "update penstock.jobs set provider_batch_id = $2 where job_id = $1"
    assert (await estate.job_row(unit))["provider_batch_id"] is None
    await worker.execute(put, unit.job, "batch-1")
    for other in ("batch-2", None):
        with pytest.raises(asyncpg.PostgresError, match="first provider batch"):
            await worker.execute(put, unit.job, other)


# ----------------------------------------------------------------------------- its end


@pytest.mark.contract("Q-14", "A-67")
async def test_a_job_without_output_cannot_be_completed(estate: Estate) -> None:
    unit, claim = await estate.claimed(await estate.home())
    worker = await estate.login(WORKER)
    with pytest.raises(asyncpg.PostgresError, match="no validated output"):
        await claims.finish(worker, HELD_BY, claim)
    with pytest.raises(asyncpg.PostgresError, match="no validated output"):
        await claims.complete(worker, HELD_BY, [claim])
    assert (await estate.job_row(unit))["status"] == "processing"


@pytest.mark.contract("Q-14", "A-67", "A-66", "L-59", "A-44")
async def test_a_completed_job_has_output_request_and_times_of_one_transaction(estate: Estate) -> None:
    home = await estate.home()
    unit, claim = await estate.claimed(home)
    data_key = await estate.key(home.home_id)

    async def forget_the_request() -> None:
        async with estate.at(WORKER, home.home_id) as connection:
            await estate.fill(connection, data_key, unit)
            await claims.finish(connection, HELD_BY, claim)

    with pytest.raises(asyncpg.PostgresError, match="no validated output"):
        await forget_the_request()
    assert await estate.owner.fetchval("select count(*) from rewrite.rewrite_outputs") == 0
    async with estate.at(WORKER, home.home_id) as connection:
        await estate.fill(connection, data_key, unit)
        await repository.complete_request(connection, home.home_id, unit.request_id)
        await claims.finish(connection, HELD_BY, claim)
    rows = await estate.owner.fetch(
        "select j.status, r.status, r.rewrite_completed_at is not null, o.eval_version, j.xmin::text = r.xmin::text, "
        "o.xmin::text = r.xmin::text from penstock.jobs j join rewrite.rewrite_jobs d using (job_id) "
        "join rewrite.rewrite_requests r using (rewrite_request_id) join rewrite.rewrite_outputs o using (job_id)"
    )
    assert [tuple(row) for row in rows] == [("completed", "completed", True, "e1", True, True)]


@pytest.mark.contract("C-62", "A-73", "L-58")
async def test_a_job_that_fails_fails_its_request_in_the_same_transaction(estate: Estate) -> None:
    unit, claim = await estate.claimed(await estate.home())
    await claims.fail(await estate.login(WORKER), HELD_BY, [death(claim)])
    row = await estate.request_row(unit)
    assert (row["status"], row["failure_code"]) == ("failed", "rewrite_unavailable")
    assert await estate.owner.fetchval("select count(*) from rewrite.rewrite_outputs") == 0
    assert await estate.owner.fetchval(
        "select j.xmin::text = r.xmin::text from penstock.jobs j, rewrite.rewrite_requests r"
    )


@pytest.mark.contract("C-62", "A-73")
async def test_the_reaper_of_a_spent_budget_fails_the_request(estate: Estate) -> None:
    unit = await estate.queued(await estate.home())
    worker = await estate.login(WORKER)
    assert len(await estate.claim()) == 1
    await estate.pass_time(minutes=11)
    await claims.reap(worker)
    assert len(await take_suspect(worker, [JOB_TYPE], worker=HELD_BY)) == 1
    await estate.pass_time(minutes=11)
    await claims.reap(worker)
    assert ((await estate.job_row(unit))["status"], (await estate.request_row(unit))["status"]) == ("failed", "failed")


@pytest.mark.contract("C-62", "A-12")
@pytest.mark.parametrize("stage", ["queued", "processing", "batch_submitted"])
async def test_a_canceled_job_cancels_its_request(estate: Estate, stage: str) -> None:
    unit = await estate.queued(await estate.home())
    if stage != "queued":
        await estate.claim()
    if stage == "batch_submitted":
        await (await estate.login(WORKER)).execute(
            "update penstock.jobs set status = 'batch_submitted', lease_expires_at = null where job_id = $1", unit.job
        )
    await (await estate.login(OPERATOR)).execute("select penstock.cancel($1, 'op', null)", unit.job)
    row = await estate.request_row(unit)
    assert (row["status"], row["failure_code"]) == ("canceled", None)


@pytest.mark.contract("A-13")
async def test_a_job_never_goes_back_from_its_end(estate: Estate) -> None:
    unit = await estate.completed(await estate.home())
    for word in ("queued", "processing", "batch_submitted", "failed", "canceled"):
        with pytest.raises(asyncpg.PostgresError, match="cannot become"):
            await estate.owner.execute("update penstock.jobs set status = $2 where job_id = $1", unit.job, word)
    assert await trail(estate, unit.job) == ["queued", "processing", "completed"]


async def test_jobs_of_other_types_are_none_of_its_business(estate: Estate) -> None:
    await estate.owner.execute(
        "insert into penstock.types (job_type, policy, stages, max_attempts) values ('other', '{}', '{run}', 1)"
    )
    job_id = await estate.owner.fetchval("select penstock.enqueue('other', '{\"text\": \"any\"}')")
    worker = await estate.login(WORKER)
    (claim,) = await claims.take(
        worker, ["other"], [timedelta(minutes=1)], [claims.START], limit=5, worker=HELD_BY, run=uuid4()
    )
    assert claim.job_id == job_id
    assert await claims.complete(worker, HELD_BY, [claim]) == []


async def trail(estate: Estate, job_id: UUID) -> list[str]:
    rows = await estate.owner.fetch(
        "select to_status from penstock.job_events where job_id = $1 order by event_id", job_id
    )
    return [row[0] for row in rows]
