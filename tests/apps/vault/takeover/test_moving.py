"""Rows of every state become jobs, under the rules of the engine; what cannot is quarantined with its problem."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest

from penstock.contract import contract_types
from penstock.store.types import _columns
from tests.apps.vault.takeover.outbox import LONG_AGO, Outbox, way_up


def moves(outbox: Outbox, job_id: UUID) -> list[tuple[Any, ...]]:
    return outbox.run(
        "select from_status, to_status, worker_id from penstock.job_events where job_id = %s order by event_id", job_id
    )


@pytest.mark.contract("C-17", "C-01")
@pytest.mark.parametrize(
    ("word", "status"), [("PENDING", "queued"), ("DONE", "completed"), ("FAILED", "failed"), ("DEAD", "failed")]
)
def test_a_row_becomes_a_job_with_the_stored_word(word: str, status: str, outbox: Outbox) -> None:
    row = outbox.put(word, attempt_count=2)
    outbox.up()
    job = outbox.job(row)
    assert (job["job_type"], job["stage"], job["status"]) == ("enrichment", "enrich", status)
    assert (job["attempt_count"], job["created_at"], job["max_attempts"]) == (2, LONG_AGO, 4)
    assert moves(outbox, row) == [(None, status, None)]
    assert outbox.run("select count(*) from vault.enrichment_outbox_legacy") == [(0,)]


@pytest.mark.contract("D-49")
def test_a_claim_that_has_run_out_is_given_back_with_its_attempts_and_the_audit_shows_it(outbox: Outbox) -> None:
    row = outbox.put("IN_PROGRESS", attempt_count=1, claimed_at=LONG_AGO)
    outbox.up()
    job = outbox.job(row)
    assert (job["status"], job["ready"], job["attempt_count"], job["claimed_by"]) == ("queued", True, 1, None)
    assert moves(outbox, row) == [(None, "processing", None), ("processing", "queued", "legacy")]


def test_a_claim_without_a_time_is_as_old_as_its_row(outbox: Outbox) -> None:
    row = outbox.put("IN_PROGRESS")
    outbox.up()
    assert outbox.job(row)["status"] == "queued"


def test_a_claim_of_a_moment_ago_keeps_its_job_until_five_minutes_are_over(outbox: Outbox) -> None:
    claimed = datetime.now(UTC) - timedelta(minutes=1)
    row = outbox.put("IN_PROGRESS", claimed_at=claimed)
    outbox.up()
    job = outbox.job(row)
    assert (job["status"], job["claimed_by"], job["claim_seq"]) == ("processing", "legacy", 1)
    assert job["lease_expires_at"] == claimed + timedelta(minutes=5)


@pytest.mark.contract("C-02", "D-91")
@pytest.mark.parametrize(
    ("attempts", "reason", "retryable"), [(3, "budget_exhausted", True), (1, "non_retryable", False)]
)
def test_a_failed_row_gets_its_one_dead_letter_which_says_nothing_of_the_error(
    attempts: int, reason: str, retryable: bool, outbox: Outbox
) -> None:
    row = outbox.put("FAILED", attempt_count=attempts, last_error="he wrote: my secret", claimed_at=LONG_AGO)
    outbox.up()
    letter = outbox.one("select * from penstock.dead_letters")
    assert (letter["job_id"], letter["reason"], letter["retryable"]) == (row, reason, retryable)
    assert (letter["attempts"], letter["state"], letter["last_failure_at"]) == (attempts, "open", LONG_AGO)
    assert "secret" not in str(letter)


@pytest.mark.contract("D-29")
def test_the_text_of_the_last_error_stays_under_its_new_name(outbox: Outbox) -> None:
    row = outbox.put("PENDING", attempt_count=1, last_error="boom: ünïcode, 'quotes'")
    outbox.up()
    seen = outbox.seen(row)
    assert seen["last_error_message"] == seen["last_error"] == "boom: ünïcode, 'quotes'"
    assert seen["last_error_code"] == "LEGACY_FAILURE"


@pytest.mark.contract("C-62")
def test_an_item_whose_enrichment_had_failed_says_so_and_others_do_not(outbox: Outbox) -> None:
    failed, ready, again = outbox.item(), outbox.item("READY_TO_CONFIRM"), outbox.item()
    outbox.put("FAILED", item_id=failed)
    outbox.put("FAILED", item_id=ready)
    outbox.put("FAILED", item_id=again)
    outbox.put("PENDING", item_id=again, created_at=LONG_AGO + timedelta(hours=1))
    outbox.up()
    found = dict(outbox.run("select id, status from vault.items"))
    assert found == {failed: "ENRICHMENT_FAILED", ready: "READY_TO_CONFIRM", again: "ENRICHING"}


@pytest.mark.contract("D-54")
def test_the_newest_row_of_an_item_holds_its_key(outbox: Outbox) -> None:
    item = outbox.item()
    old = outbox.put("DONE", item_id=item)
    new = outbox.put("PENDING", item_id=item, created_at=LONG_AGO + timedelta(days=1))
    outbox.up()
    assert outbox.job(old)["idempotency_key"] is None
    assert outbox.job(new)["idempotency_key"] == f"enrichment:{item}"


def test_a_finished_row_of_an_item_that_is_gone_is_history_and_moves(outbox: Outbox) -> None:
    row = outbox.put("DONE", item_id=uuid4())
    outbox.up()
    assert outbox.job(row)["status"] == "completed"
    assert outbox.problems() == []


def loose(outbox: Outbox) -> None:
    """An outbox that nobody kept clean: no key, no types, no NOT NULL."""
    outbox.run("drop table vault.enrichment_outbox")
    outbox.run(
        "create table public.enrichment_outbox (id text, item_id text, status text, attempt_count text, "
        "claimed_at text, last_error text, created_at text, job_type text, run_at text, locked_by text, "
        "lease_expires_at text, last_error_code text)"
    )


MALFORMED: Final[list[tuple[dict[str, str | None], str]]] = [
    ({"id": None}, "id is null"),
    ({"item_id": None}, "item_id is null"),
    ({"item_id": "42"}, "item_id is no uuid: 42"),
    ({"item_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7"}, "there is no item 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
    ({"status": None}, "status is null"),
    ({"status": "BANANA"}, "status is none of PENDING, IN_PROGRESS, DONE, FAILED: BANANA"),
    ({"status": "pending"}, "status is none of PENDING, IN_PROGRESS, DONE, FAILED: pending"),
    ({"attempt_count": None}, "attempt_count is null"),
    ({"attempt_count": "-1"}, "attempt_count is no number from 0 to 999999: -1"),
    ({"attempt_count": "99999999999"}, "attempt_count is no number from 0 to 999999: 99999999999"),
    ({"created_at": None}, "created_at is null"),
    ({"created_at": "2025-02-30"}, "created_at is no moment since 1970: 2025-02-30"),
    ({"created_at": "infinity"}, "created_at is no moment since 1970: infinity"),
    ({"created_at": "0044-03-15 BC"}, "created_at is no moment since 1970: 0044-03-15 BC"),
    ({"claimed_at": "soon"}, "claimed_at is no moment since 1970: soon"),
    ({"run_at": "infinity"}, "run_at is no moment within ten years: infinity"),
    ({"lease_expires_at": "never"}, "lease_expires_at is no moment within ten years: never"),
    ({"job_type": "vectors"}, "job_type is not enrichment: vectors"),
    ({"locked_by": "w" * 101}, "locked_by has more than 100 characters"),
    ({"last_error_code": "E" * 51}, "last_error_code has more than 50 characters"),
]


def test_every_malformed_row_goes_into_quarantine_as_it_was_with_its_problem(outbox: Outbox) -> None:
    loose(outbox)
    item = str(outbox.item())
    sound = {"item_id": item, "attempt_count": "0", "created_at": "2025-12-29T10:00:00Z"}
    outbox.put(**sound, id=str(uuid4()), table="public.enrichment_outbox")
    for number, (wrong, _) in enumerate(MALFORMED):
        row: dict[str, Any] = {"status": "PENDING", "id": str(uuid4()), "last_error": str(number), **sound, **wrong}
        outbox.put(**row, table="public.enrichment_outbox")
    outbox.up()
    kept = {int(row["row"]["last_error"]): row for row in outbox.rows("select * from vault.outbox_quarantine")}
    for number, (wrong, problem) in enumerate(MALFORMED):
        assert kept[number]["problem"].removesuffix(" in vault.items") == problem
        assert {name: kept[number]["row"][name] for name in wrong} == wrong
    assert len(kept) == len(MALFORMED)
    assert outbox.run("select count(*) from penstock.jobs") == [(1,)]


def test_an_id_that_is_there_twice_is_moved_once_and_quarantined_once(outbox: Outbox) -> None:
    loose(outbox)
    row, item = uuid4(), str(outbox.item())
    for spelled in (str(row), str(row).upper()):
        outbox.put("DONE", id=spelled, item_id=item, attempt_count="0", table="public.enrichment_outbox")
    outbox.up()
    assert outbox.job(row)["status"] == "completed"
    assert len(outbox.problems()) == 1
    assert outbox.problems()[0].startswith("id is there twice: ")


def test_an_id_that_is_no_uuid_leads_to_one_and_always_to_the_same(outbox: Outbox) -> None:
    outbox.run("drop table vault.enrichment_outbox")
    outbox.run(
        "create table public.enrichment_outbox (id bigint primary key, item_id uuid, status text, attempt_count int, "
        "claimed_at timestamptz, last_error text, created_at timestamptz, tenant text not null)"
    )
    outbox.put("DONE", id=42, tenant="acme", table="public.enrichment_outbox")
    outbox.up()
    (found,) = outbox.run("select job_id, vault.outbox_id('42') from penstock.jobs")
    assert found[0] == found[1]
    assert found[0].version == 8
    outbox.down()
    (row,) = outbox.rows("select id, status, tenant from public.enrichment_outbox")
    assert row == {"id": 42, "status": "DONE", "tenant": "acme"}


def test_a_table_that_lacks_a_column_is_not_taken_for_the_outbox(outbox: Outbox) -> None:
    outbox.run("alter table vault.enrichment_outbox drop column attempt_count")
    with pytest.raises(psycopg.errors.UndefinedColumn, match="lacks attempt_count"):
        outbox.up()


def test_the_type_is_what_a_worker_announces(outbox: Outbox) -> None:
    outbox.put()
    outbox.up()
    made = outbox.one("select * from penstock.types")
    policy = contract_types.enrichment()
    assert made["policy"] == policy.to_json()
    names = (
        "job_type", "policy", "stages", "max_attempts", "priority", "audited", "stale_counts_attempt", "max_reclaims",
        "replayable", "steps_required", "dispatch", "channel", "max_payload_bytes", "enqueue_role", "keep_finished",
        "keep_keys", "breaker_after", "breaker_cooldown", "max_running", "rate_count", "rate_period", "key_max_running",
        "key_rate_count", "key_rate_period",
    )  # fmt: skip
    wanted = dict(zip(names, _columns(policy), strict=True))
    assert {name: made[name] for name in names if name != "policy"} == {
        name: value for name, value in wanted.items() if name != "policy"
    }


def test_what_happened_is_written_down(outbox: Outbox) -> None:
    outbox.put("DONE")
    outbox.put("IN_PROGRESS", claimed_at=LONG_AGO)
    outbox.put("BANANA")
    outbox.up()
    found = outbox.one("select * from vault.outbox_takeover")
    assert (found["source_schema"], found["found"], found["given_back"], found["quarantined"]) == ("vault", 3, 1, 1)
    assert found["moved"] == {"queued": 1, "processing": 0, "completed": 1, "failed": 0}
    assert found["seconds"] > 0


@pytest.mark.parametrize(("change", "status"), [("update", "queued"), ("delete", None)])
def test_a_finished_row_that_changes_while_others_move_is_taken_as_it_is_at_the_lock(
    change: str, status: str | None, outbox: Outbox
) -> None:
    row, other = outbox.put("FAILED", attempt_count=1), outbox.put("DONE")
    before_the_lock = way_up()[:-2]
    with outbox.legacy() as somebody, outbox.db.transaction():
        for statement in before_the_lock:
            outbox.run(statement)
        early = outbox.one(
            "select (vault.move_ended('vault.enrichment_outbox', row(true, 'vault', now(), 0, 0, "
            '\'{"queued": 0, "processing": 0, "completed": 0, "failed": 0}\', 0, 0))).moved'
        )
        assert early["moved"] == {"queued": 0, "processing": 0, "completed": 1, "failed": 1}
        if change == "update":
            somebody.execute("update enrichment_outbox set status = 'PENDING' where id = %s", [row])
        else:
            somebody.execute("delete from enrichment_outbox where id = %s", [row])
        after = outbox.one(
            "select (vault.undo_changed('vault.enrichment_outbox', row(true, 'vault', now(), 0, 0, %s, 0, 0))).moved",
            json.dumps(early["moved"]),
        )
        assert after["moved"] == {"queued": 0, "processing": 0, "completed": 1, "failed": 0}
        outbox.run("truncate vault.outbox_early")
        outbox.run("select penstock.remove_jobs('enrichment', null)")
        outbox.run("select vault.take_over()")
    found = dict(outbox.run("select job_id, status from penstock.jobs"))
    assert found == ({other: "completed"} if status is None else {row: status, other: "completed"})
    assert outbox.run("select count(*) from penstock.dead_letters") == [(0,)]
