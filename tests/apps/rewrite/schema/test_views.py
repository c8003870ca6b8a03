"""What may be read: the job record, the audit, the public status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from penstock.apps.rewrite import reports
from penstock.cli.common import plain
from penstock.contract.calls import Execution, Route
from penstock.contract.groups import group_key
from penstock.store import claims
from penstock.store.roles import FRONTEND, OPERATOR, WORKER
from tests.apps.rewrite.estate import HELD_BY, Estate, Unit, classified, routed

KINDS = {
    "job_id": "uuid", "rewrite_request_id": "uuid", "task": "character varying", "surface": "text",
    "rewrite_strength": "text", "language_pair": "jsonb", "recipient_user_id": "uuid", "recipient_snapshot_id": "uuid",
    "recipient_preference_snapshot_id": "uuid", "status": "text", "created_at": "timestamp with time zone",
    "updated_at": "timestamp with time zone", "not_before_at": "timestamp with time zone",
    "claimed_at": "timestamp with time zone", "claimed_by": "character varying", "attempt_count": "integer",
    "max_attempts": "smallint", "last_error": "text", "last_error_at": "timestamp with time zone",
    "routing_decision": "jsonb",
}  # fmt: skip


async def columns(estate: Estate, view: str) -> dict[str, str]:
    rows = await estate.owner.fetch(
        "select attname, format_type(atttypid, null) from pg_attribute where attrelid = $1::text::regclass "
        "and attnum > 0 order by attnum",
        f"rewrite.{view}",
    )
    return {row[0]: row[1] for row in rows}


async def record(estate: Estate, unit: Unit) -> dict[str, Any]:
    found = await reports.record(await estate.login(OPERATOR), unit.home.home_id, unit.request_id)
    assert found is not None
    return found


async def audit(estate: Estate, unit: Unit) -> list[dict[str, Any]]:
    return await reports.audit(await estate.login(OPERATOR), unit.home.home_id, unit.request_id)


# ------------------------------------------------------------------------- the record


@pytest.mark.contract("Q-19", "Q-24", "Q-26", "Q-28", "Q-31")
async def test_the_job_record_has_the_fields_of_the_contract_and_their_types(estate: Estate) -> None:
    assert await columns(estate, "job_record") == KINDS


@pytest.mark.contract("Q-20", "Q-21", "Q-22", "Q-23", "Q-24")
async def test_a_record_tells_whose_it_is_and_in_which_languages(estate: Estate) -> None:
    home = await estate.home()
    unit = await estate.queued(home)
    found = await record(estate, unit)
    assert (found["task"], found["job_id"]) == ("complaint_rewrite", unit.job)
    assert found["language_pair"] == {"from": "en", "to": "es"}
    assert (found["surface"], found["rewrite_strength"]) == ("direct_message", "light_touch")
    assert found["recipient_user_id"] == home.recipient
    assert found["recipient_snapshot_id"] == unit.frozen.recipient_snapshot_id
    assert found["recipient_preference_snapshot_id"] == unit.frozen.recipient_preference_snapshot_id


@pytest.mark.contract("Q-29", "Q-30", "Q-27", "Q-28", "Q-31")
async def test_a_new_job_has_no_attempt_no_claim_no_error_and_a_budget_of_two(estate: Estate) -> None:
    found = await record(estate, await estate.queued(await estate.home()))
    assert (found["attempt_count"], found["max_attempts"]) == (0, 2)
    empty = ("not_before_at", "claimed_at", "claimed_by", "last_error", "last_error_at")
    assert [found[name] for name in empty] == [None] * 5


@pytest.mark.contract("Q-25", "Q-28", "Q-26")
async def test_a_claim_shows_in_the_record_and_moves_its_time(estate: Estate) -> None:
    unit = await estate.queued(await estate.home())
    before = await record(estate, unit)
    await estate.claim()
    after = await record(estate, unit)
    assert (before["status"], after["status"]) == ("queued", "processing")
    assert (after["claimed_by"], after["claimed_at"] is not None) == (HELD_BY, True)
    assert after["updated_at"] > before["updated_at"]
    assert after["created_at"] == before["created_at"]


@pytest.mark.contract("Q-31", "Q-27")
async def test_a_failed_attempt_shows_its_error_and_when_the_next_is_due(estate: Estate) -> None:
    unit, claim = await estate.claimed(await estate.home())
    back = claims.Requeue(claim, timedelta(seconds=900), charged=True, code="NETWORK_TIMEOUT")
    await claims.requeue(await estate.login(WORKER), HELD_BY, [back])
    found = await record(estate, unit)
    assert (found["status"], found["attempt_count"], found["last_error"]) == ("queued", 1, "NETWORK_TIMEOUT")
    assert found["not_before_at"] == found["last_error_at"] + timedelta(seconds=900)


@pytest.mark.contract("Q-66")
async def test_a_stale_claim_is_named_in_the_record(estate: Estate) -> None:
    unit, _ = await estate.claimed(await estate.home())
    await estate.pass_time(minutes=11)
    await claims.reap(await estate.login(WORKER))
    found = await record(estate, unit)
    assert (found["status"], found["attempt_count"], found["last_error"]) == ("queued", 1, "stale_claim_requeued")


@pytest.mark.contract("Q-32", "Q-80", "A-65")
async def test_a_finished_job_shows_status_attempts_route_and_times(estate: Estate) -> None:
    unit = await estate.completed(
        await estate.home(), decision=routed(model="gpt-5.2", base_url="https://x.example/v1")
    )
    found = await record(estate, unit)
    assert (found["status"], found["attempt_count"]) == ("completed", 0)
    assert found["routing_decision"] == {
        "provider": "openai", "adapter_kind": "openai_responses", "base_url": "https://x.example/v1",
        "model": "gpt-5.2", "prompt_version": "v1", "policy_version": "v1", "execution_mode": "batch",
        "cache_eligible": True, "max_retries": 2,
    }  # fmt: skip
    assert found["created_at"] < found["updated_at"]


@pytest.mark.contract("Q-43")
async def test_times_are_utc_whatever_the_session_says(estate: Estate) -> None:
    unit = await estate.queued(await estate.home())
    operator = await estate.login(OPERATOR)
    await operator.execute("set timezone = 'Asia/Tokyo'")
    found = await record(estate, unit)
    assert found["created_at"].utcoffset() == timedelta(0)
    assert plain(found["created_at"]).endswith("+00:00")


# -------------------------------------------------------------------------- the audit


@pytest.mark.contract("A-77", "L-61", "L-62", "A-78", "L-63")
async def test_every_row_of_the_audit_says_whose_it_is_and_what_was_decided(estate: Estate) -> None:
    home = await estate.home()
    unit = await estate.completed(home, result=classified(detected_language="en", classifier_version="rules-9"))
    expected = {
        "rewrite_request_id": unit.request_id, "job_id": unit.job, "home_id": home.home_id,
        "sender_user_id": home.sender, "recipient_user_id": home.recipient,
        "recipient_snapshot_id": unit.frozen.recipient_snapshot_id,
        "recipient_preference_snapshot_id": unit.frozen.recipient_preference_snapshot_id, "source_locale": "en",
        "target_locale": "es", "lane": "cross_language", "classifier_version": "rules-9", "detected_language": "en",
        "language_confidence": "high", "provider": "openai", "model": "gpt-5-mini", "prompt_version": "v1",
        "policy_version": "v1", "execution_mode": "batch",
    }  # fmt: skip
    rows = await audit(estate, unit)
    assert [row["status"] for row in rows] == ["queued", "processing", "completed"]
    for row in rows:
        assert {name: row[name] for name in expected} == expected


@pytest.mark.contract("A-80", "L-65", "A-07", "A-11")
async def test_the_audit_has_a_time_for_each_state_the_attempts_and_the_end(estate: Estate) -> None:
    unit, _ = await estate.claimed(await estate.home())
    batch_id = await estate.submit(unit)
    open_rows = await audit(estate, unit)
    assert {row["final_status"] for row in open_rows} == {None}
    assert await estate.fail_item(batch_id, unit) == "failed"
    rows = await audit(estate, unit)
    assert [(row["from_status"], row["status"]) for row in rows] == [
        (None, "queued"), ("queued", "processing"), ("processing", "batch_submitted"), ("batch_submitted", "failed"),
    ]  # fmt: skip
    times = [row["at"] for row in rows]
    assert times == sorted(times)
    for row in rows:
        states = [row[f"{state}_at"] for state in ("queued", "processing", "batch_submitted", "failed")]
        assert states == times
        assert (row["completed_at"], row["canceled_at"]) == (None, None)
        assert (row["attempts"], row["final_status"]) == (1, "failed")


@pytest.mark.contract("A-79", "L-64", "C-35", "A-52", "L-52")
async def test_the_audit_shows_group_batch_and_item_of_each_submission(estate: Estate) -> None:
    """A retry goes into a new batch: the job keeps the first provider's id, and every row shows its own."""
    unit, _ = await estate.claimed(await estate.home())
    first = await estate.submit(unit)
    worker = await estate.login(WORKER)
    await worker.execute(
        "update penstock.jobs set status = 'queued', ready = true, attempt_count = 1 where job_id = $1", unit.job
    )
    assert len(await estate.claim()) == 1
    second = await estate.submit(unit, provider_batch_id="batch-2")
    rows = [row for row in await audit(estate, unit) if row["status"] == "batch_submitted"]
    assert [(r["batch_id"], r["batch_item_index"], r["submission_provider_batch_id"]) for r in rows] == [
        (first, 0, "batch-1"),
        (second, 0, "batch-2"),
    ]
    assert {row["provider_batch_id"] for row in rows} == {"batch-1"}
    assert [row["attempts"] for row in rows] == [2, 2]
    route = Route("openai", "gpt-5-mini", "openai_responses", execution=Execution.BATCH, prompt_version="v1",
                  policy_version="v1", lane="cross_language", source_locale="en", target_locale="es")  # fmt: skip
    assert {row["batch_group_key"] for row in rows} == {"|".join(group_key(route))}


async def test_the_audit_outlives_its_job(estate: Estate) -> None:
    unit = await estate.completed(await estate.home())
    await estate.owner.execute("delete from penstock.jobs where job_id = $1", unit.job)
    rows = await audit(estate, unit)
    assert [row["status"] for row in rows] == ["queued", "processing", "completed"]
    assert {(row["final_status"], row["attempts"]) for row in rows} == {("completed", 1)}


# ------------------------------------------------------------------------- the public


@pytest.mark.contract("C-56", "Q-05", "A-47", "Q-84")
async def test_a_frontend_reads_four_columns_of_its_own_home(estate: Estate) -> None:
    assert await columns(estate, "status_public") == {
        "rewrite_request_id": "uuid", "status": "text", "completed_at": "timestamp with time zone",
        "failure_code": "character varying",
    }  # fmt: skip
    home = await estate.home()
    done, dead = await estate.completed(home), await estate.queued(home)
    await estate.claim()
    await estate.fail(dead, "AUTH_DENIED")
    await estate.completed(await estate.home())
    async with estate.at(FRONTEND, home.home_id) as connection:
        rows = await connection.fetch("select * from rewrite.status_public order by status")
    assert [(row["rewrite_request_id"], row["status"], row["failure_code"]) for row in rows] == [
        (done.request_id, "completed", None),
        (dead.request_id, "failed", "rewrite_unavailable"),
    ]
    assert rows[0]["completed_at"] is not None


@pytest.mark.contract("C-56", "Q-84")
async def test_what_has_changed_since_is_read_for_one_home(estate: Estate) -> None:
    home, other = await estate.home(), await estate.home()
    first = await estate.queued(home)
    ask = "select rewrite_request_id, status, changed_at from rewrite.status_changes($1)"
    async with estate.at(FRONTEND, home.home_id) as connection:
        ((seen, status, at),) = await connection.fetch(ask, datetime(2000, 1, 1, tzinfo=UTC))
    assert (seen, status) == (first.request_id, "queued")
    await estate.queued(other)
    second = await estate.queued(home)
    async with estate.at(FRONTEND, home.home_id) as connection:
        rows = await connection.fetch(ask, at)
    assert [row["rewrite_request_id"] for row in rows] == [second.request_id]
    async with estate.at(FRONTEND, None) as connection:
        assert await connection.fetch(ask, datetime(2000, 1, 1, tzinfo=UTC)) == []


@pytest.mark.contract("C-56")
async def test_a_change_of_status_is_poked_without_any_data(estate: Estate, dsn: str) -> None:
    heard: list[tuple[str, str]] = []
    listener = await asyncpg.connect(dsn)
    await listener.add_listener("rewrite_status", lambda _c, _p, channel, data: heard.append((channel, data)))
    home = await estate.home()
    unit = await estate.completed(home)
    await listener.execute("select 1")
    assert len(heard) >= 3  # received, queued, completed: each in a transaction of its own
    assert set(heard) == {("rewrite_status", "")}
    heard.clear()
    async with estate.owner.transaction():
        await estate.owner.execute(
            "update rewrite.rewrite_requests set sender_reveal_at = now() where rewrite_request_id = $1",
            unit.request_id,
        )
    await listener.execute("select 1")
    assert heard == []
    await listener.close()


async def test_every_view_runs_with_the_rights_of_its_reader(estate: Estate) -> None:
    rows = await estate.owner.fetch(
        "select relname from pg_class where relnamespace = 'rewrite'::regnamespace and relkind = 'v' "
        "and not coalesce(reloptions @> '{security_invoker=true}', false)"
    )
    assert rows == []
