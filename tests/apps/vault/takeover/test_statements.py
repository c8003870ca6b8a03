"""The statements of 004, and those from before it, do to jobs what they did to rows, under the engine's rules."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.apps.vault.takeover import statements as say
from tests.apps.vault.takeover.outbox import LONG_AGO, Outbox

FAILURE: dict[str, Any] = {"backoff": timedelta(seconds=30), "error_code": "RATE_LIMITED", "error_message": "slow down"}


@pytest.fixture
def template() -> str:
    """After the take-over: a fresh database has an empty outbox behind the view."""
    return "penstock_template"


@pytest.fixture
def poller(outbox: Outbox) -> Iterator[psycopg.Connection[Any]]:
    with outbox.legacy() as connection:
        yield connection


def enqueue(outbox: Outbox, **given: Any) -> UUID:
    """A row as a producer of before puts it in."""
    row = {"id": uuid4(), "item_id": outbox.item(), **given}
    with outbox.legacy() as producer:
        producer.execute(say.OLD_INSERT, row)
    return UUID(str(row["id"]))


def claim(poller: psycopg.Connection[Any], worker: str = "w1") -> dict[str, Any] | None:
    row: dict[str, Any] | None = poller.execute(say.CLAIM, {"worker_id": worker}).fetchone()
    return row


def expire(outbox: Outbox, job: UUID) -> None:
    outbox.run("update penstock.jobs set lease_expires_at = now() - interval '1 second' where job_id = %s", job)


def engine_claims(outbox: Outbox, job: UUID) -> None:
    outbox.run(
        "update penstock.jobs set status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'engine-0', "
        "run_id = gen_random_uuid(), claimed_at = now(), lease_expires_at = now() + interval '5 minutes' "
        "where job_id = %s",
        job,
    )


def moves(outbox: Outbox, job: UUID) -> list[str]:
    rows = outbox.run("select to_status from penstock.job_events where job_id = %s order by event_id", job)
    return [row[0] for row in rows]


# ------------------------------------------------------------------- producers


@pytest.mark.contract("D-12", "D-54")
def test_a_row_put_in_is_a_job_enqueued(outbox: Outbox) -> None:
    item = outbox.item()
    job = enqueue(outbox, item_id=item)
    row = outbox.job(job)
    assert (row["status"], row["payload"], row["idempotency_key"]) == (
        "queued", {"item_id": str(item)}, f"enrichment:{item}",
    )  # fmt: skip
    assert (row["audited"], row["max_attempts"], moves(outbox, job)) == (True, 4, ["queued"])


@pytest.mark.contract("D-34", "D-35")
def test_a_row_put_in_pokes_with_its_commit_and_not_without(outbox: Outbox) -> None:
    item = outbox.item()
    with outbox.legacy() as producer:
        outbox.db.execute("listen litevault_jobs")
        with producer.transaction(force_rollback=True):
            producer.execute(say.OLD_INSERT, {"id": uuid4(), "item_id": item})
        producer.execute(say.OLD_INSERT, {"id": uuid4(), "item_id": item})
    heard = list(outbox.db.notifies(timeout=10, stop_after=1))
    assert [(note.channel, note.payload) for note in heard] == [("litevault_jobs", '{"job_type": "enrichment"}')]


def test_a_second_row_of_an_item_is_a_second_job_and_the_first_keeps_the_key(outbox: Outbox) -> None:
    item = outbox.item()
    first, second = enqueue(outbox, item_id=item), enqueue(outbox, item_id=item)
    assert outbox.job(first)["idempotency_key"] == f"enrichment:{item}"
    assert outbox.job(second)["idempotency_key"] is None


@pytest.mark.contract("D-24", "D-25")
def test_a_row_put_in_with_nothing_but_an_item_has_the_defaults(
    outbox: Outbox, poller: psycopg.Connection[Any]
) -> None:
    item = outbox.item()
    row = poller.execute("INSERT INTO enrichment_outbox (item_id) VALUES (%s) RETURNING *", [item]).fetchone()
    assert row is not None
    assert (row["item_id"], row["job_type"], row["status"], row["attempt_count"]) == (item, "enrichment", "PENDING", 0)
    assert row["run_at"] == row["created_at"]
    assert (row["locked_by"], row["locked_at"], row["lease_expires_at"], row["last_error"]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"item_id": None}, psycopg.errors.NotNullViolation, "item_id is null"),
        ({"status": "DONE"}, psycopg.Error, "a new row is PENDING"),
        ({"status": "BANANA"}, psycopg.Error, "a new row is PENDING"),
        ({"attempt_count": 2}, psycopg.Error, "a new row is PENDING with no attempt used"),
        ({"job_type": "vectors"}, psycopg.errors.InvalidParameterValue, "not vectors"),
        ({"run_at": "infinity"}, psycopg.errors.InvalidParameterValue, "within ten years"),
    ],
)
def test_a_row_that_cannot_be_a_job_is_refused_by_name(
    columns: dict[str, Any], error: type[Exception], words: str, outbox: Outbox, poller: psycopg.Connection[Any]
) -> None:
    row = {"item_id": uuid4(), **columns}
    with pytest.raises(error, match=words):
        poller.execute(
            f"INSERT INTO enrichment_outbox ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})",
            list(row.values()),
        )
    assert outbox.run("select count(*) from penstock.jobs") == [(0,)]


# ---------------------------------------------------------------------- claims


@pytest.mark.contract("D-45", "D-16", "C-19")
def test_the_claim_of_004_takes_a_job_with_a_name_a_lease_and_a_new_fence(
    outbox: Outbox, poller: psycopg.Connection[Any]
) -> None:
    job = enqueue(outbox)
    row = claim(poller)
    assert row is not None
    assert (row["id"], row["status"], row["locked_by"]) == (job, "IN_PROGRESS", "w1")
    assert row["locked_at"] == row["claimed_at"]
    assert row["lease_expires_at"] - row["locked_at"] == pytest.approx(timedelta(minutes=5), abs=timedelta(seconds=1))
    stored = outbox.job(job)
    assert (stored["status"], stored["claim_seq"], stored["claimed_by"]) == ("processing", 1, "w1")
    assert moves(outbox, job) == ["queued", "processing"]


@pytest.mark.contract("D-46")
def test_a_row_that_is_not_due_is_not_claimed(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    poller.execute(
        "INSERT INTO enrichment_outbox (item_id, run_at) VALUES (%s, NOW() + INTERVAL '1 hour')", [outbox.item()]
    )
    assert claim(poller) is None


@pytest.mark.contract("D-47", "D-10", "D-51")
def test_two_sessions_claim_different_rows_the_oldest_first(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    first, second = enqueue(outbox), enqueue(outbox)
    with outbox.legacy() as other, poller.transaction(), other.transaction():
        one, two, nobody = claim(poller), claim(other, "w2"), claim(other, "w3")
    assert one is not None
    assert two is not None
    assert (one["id"], two["id"], nobody) == (first, second, None)


@pytest.mark.contract("D-10", "D-12")
def test_the_claim_from_before_004_takes_a_job_under_the_name_of_its_session(
    outbox: Outbox, poller: psycopg.Connection[Any]
) -> None:
    job = enqueue(outbox)
    row = poller.execute(say.OLD_CLAIM).fetchone()
    assert row is not None
    assert row["id"] == job
    stored = outbox.job(job)
    assert stored["claimed_by"] == f"legacy:{poller.info.backend_pid}"
    assert stored["lease_expires_at"] - stored["claimed_at"] == timedelta(minutes=5)


@pytest.mark.contract("D-10")
def test_select_for_update_and_then_update_claims_too(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    job = enqueue(outbox)
    pick = (
        "SELECT id FROM enrichment_outbox WHERE status = 'PENDING' ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED"
    )
    with poller.transaction():
        assert [row["id"] for row in poller.execute(pick)] == [job]
        with outbox.legacy() as other:
            assert other.execute(pick).fetchall() == []
        done = poller.execute(
            "UPDATE enrichment_outbox SET status = 'IN_PROGRESS', claimed_at = NOW() WHERE id = %s", [job]
        )
        assert done.rowcount == 1
    assert outbox.job(job)["status"] == "processing"


@pytest.mark.contract("D-26")
def test_a_worker_id_of_101_characters_is_refused(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    enqueue(outbox)
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        claim(poller, "w" * 101)
    row = claim(poller, "w" * 100)
    assert row is not None
    assert row["locked_by"] == "w" * 100


@pytest.mark.parametrize("lease", ["-1 second", "2 days", "infinity"])
def test_a_lease_without_an_end_is_refused(lease: str, outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    enqueue(outbox)
    until = "'infinity'" if lease == "infinity" else f"NOW() + INTERVAL '{lease}'"
    with pytest.raises(psycopg.errors.DataError):
        poller.execute(f"UPDATE enrichment_outbox SET status = 'IN_PROGRESS', lease_expires_at = {until}")


def test_pollers_get_nothing_while_operators_hold_the_type_back(
    outbox: Outbox, poller: psycopg.Connection[Any]
) -> None:
    enqueue(outbox)
    outbox.run("update penstock.types set paused_at = now(), paused_by = 'op'")
    assert claim(poller) is None
    outbox.run("update penstock.types set paused_at = null, paused_by = null")
    assert claim(poller) is not None


@pytest.mark.contract("D-48")
def test_a_lease_is_renewed_by_its_holder_alone(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    job = enqueue(outbox)
    claim(poller)
    outbox.run("update penstock.jobs set lease_expires_at = now() + interval '1 second' where job_id = %s", job)
    assert poller.execute(say.RENEW, {"job_id": job, "worker_id": "w2"}).rowcount == 0
    assert poller.execute(say.RENEW, {"job_id": job, "worker_id": "w1"}).rowcount == 1
    stored = outbox.job(job)
    assert stored["lease_expires_at"] - stored["updated_at"] == pytest.approx(
        timedelta(minutes=5), abs=timedelta(seconds=1)
    )


# ------------------------------------------------------------------------ ends


@pytest.mark.contract("D-50")
def test_done_completes_the_job_that_the_poller_holds(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    job = enqueue(outbox)
    claim(poller)
    assert poller.execute(say.OLD_DONE, {"job_id": job}).rowcount == 1
    assert moves(outbox, job) == ["queued", "processing", "completed"]
    assert outbox.job(job)["finished_at"] is not None
    assert outbox.seen(job)["status"] == "DONE"


@pytest.mark.contract("D-60")
def test_mark_failed_puts_it_back_with_one_more_attempt_its_time_and_its_error(
    outbox: Outbox, poller: psycopg.Connection[Any]
) -> None:
    job = enqueue(outbox)
    claim(poller)
    assert poller.execute(say.MARK_FAILED, {"job_id": job, **FAILURE}).rowcount == 1
    seen, stored = outbox.seen(job), outbox.job(job)
    assert (seen["status"], seen["attempt_count"], seen["locked_by"], seen["lease_expires_at"]) == (
        "PENDING",
        1,
        None,
        None,
    )
    assert (seen["last_error_code"], seen["last_error_message"]) == ("RATE_LIMITED", "slow down")
    assert stored["run_at"] - stored["last_error_at"] == pytest.approx(timedelta(seconds=30), abs=timedelta(seconds=1))
    assert (stored["ready"], claim(poller)) == (False, None)


@pytest.mark.contract("D-58")
def test_a_fourth_failure_ends_the_job_whatever_the_poller_says(
    outbox: Outbox, poller: psycopg.Connection[Any]
) -> None:
    job = enqueue(outbox)
    for _ in range(4):
        claim(poller)
        poller.execute(say.MARK_FAILED, {"job_id": job, **FAILURE, "backoff": timedelta(0)})
    assert (outbox.seen(job)["status"], claim(poller)) == ("FAILED", None)
    letter = outbox.one("select * from penstock.dead_letters")
    assert (letter["job_id"], letter["reason"], letter["attempts"]) == (job, "budget_exhausted", 4)


@pytest.mark.contract("D-12", "D-11")
def test_a_retry_from_before_004_runs_again_at_once(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    job = enqueue(outbox)
    poller.execute(say.OLD_CLAIM)
    poller.execute(say.OLD_RETRY, {"job_id": job, "error": "boom"})
    seen = outbox.seen(job)
    assert (seen["status"], seen["attempt_count"], seen["last_error"]) == ("PENDING", 1, "boom")
    assert seen["last_error_code"] == "LEGACY_FAILURE"
    assert poller.execute(say.OLD_CLAIM).rowcount == 1


@pytest.mark.contract("C-02", "C-62")
def test_failed_leaves_one_dead_letter_without_the_text_of_the_error_and_tells_the_item(
    outbox: Outbox, poller: psycopg.Connection[Any]
) -> None:
    item = outbox.item()
    job = enqueue(outbox, item_id=item)
    poller.execute(say.OLD_CLAIM)
    poller.execute(say.OLD_DEAD, {"job_id": job, "error": "he wrote: my secret"})
    letter = outbox.one("select * from penstock.dead_letters")
    assert (letter["job_id"], letter["reason"], letter["error_class"]) == (job, "non_retryable", "LEGACY_FAILURE")
    assert "secret" not in str(letter)
    assert outbox.seen(job)["last_error_message"] == "he wrote: my secret"
    assert outbox.run("select status from vault.items where id = %s", item) == [("ENRICHMENT_FAILED",)]


# ------------------------------------------------------------------ lost claims


@pytest.mark.contract("D-49", "D-20")
def test_reclaim_puts_expired_claims_back_and_uses_no_attempt(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    held, expired = enqueue(outbox), enqueue(outbox)
    claim(poller)
    claim(poller)
    expire(outbox, expired)
    assert poller.execute(say.RECLAIM).rowcount == 1
    seen = outbox.seen(expired)
    assert (seen["status"], seen["locked_by"], seen["lease_expires_at"], seen["attempt_count"]) == (
        "PENDING",
        None,
        None,
        0,
    )
    assert outbox.seen(held)["status"] == "IN_PROGRESS"
    assert outbox.job(expired)["reclaim_count"] == 1


@pytest.mark.contract("C-13")
def test_a_job_that_is_reclaimed_for_the_sixth_time_ends(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    job = enqueue(outbox)
    for _ in range(6):
        claim(poller)
        expire(outbox, job)
        poller.execute(say.RECLAIM)
    assert outbox.seen(job)["status"] == "FAILED"
    assert outbox.one("select error_class from penstock.dead_letters") == {"error_class": "LEASE_EXPIRED"}


@pytest.mark.contract("C-31")
def test_who_lost_its_claim_changes_nothing(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    job = enqueue(outbox)
    claim(poller)
    expire(outbox, job)
    poller.execute(say.RECLAIM)
    before = outbox.job(job)
    assert poller.execute(say.OLD_DONE, {"job_id": job}).rowcount == 0
    assert poller.execute(say.OLD_DEAD, {"job_id": job, "error": "late"}).rowcount == 0
    assert poller.execute(say.MARK_FAILED, {"job_id": job, **FAILURE}).rowcount == 0
    assert outbox.job(job) == before


@pytest.mark.contract("C-31")
def test_a_job_in_the_hands_of_the_engine_is_not_a_pollers(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    job = enqueue(outbox)
    engine_claims(outbox, job)
    before, said = outbox.job(job), []
    poller.add_notice_handler(lambda note: said.append(note.message_primary))
    for statement, values in (
        (say.OLD_DONE, {}),
        (say.OLD_DEAD, {"error": "late"}),
        (say.MARK_FAILED, FAILURE),
        (say.RENEW, {"worker_id": "engine-0"}),
    ):
        assert poller.execute(statement, {"job_id": job, **values}).rowcount == 0
    assert outbox.job(job) == before
    assert (
        said[0] == f"job {job} is in the hands of engine-0: nobody holds it for this statement, so DONE changes nothing"
    )
    expire(outbox, job)
    assert poller.execute(say.RECLAIM).rowcount == 1


def test_an_update_that_another_overtook_counts_as_no_row(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    job = enqueue(outbox)
    claim(poller)
    slow = (
        "UPDATE enrichment_outbox SET status = 'PENDING', attempt_count = attempt_count + 1 "
        "WHERE id = %(job_id)s AND pg_advisory_xact_lock(7) IS NOT NULL"
    )
    with outbox.legacy() as other:
        other.execute("select pg_advisory_lock(7)")
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(poller.execute, slow, {"job_id": job})
            outbox.wait_for("select exists (select from pg_locks where locktype = 'advisory' and not granted)")
            other.execute(say.OLD_DONE, {"job_id": job})
            other.execute("select pg_advisory_unlock(7)")
            assert late.result().rowcount == 0
    assert outbox.seen(job)["status"] == "DONE"


# --------------------------------------------------------- words and identities


@pytest.mark.contract("D-50", "C-01")
@pytest.mark.parametrize("word", ["BANANA", "pending", "DEAD", None])
def test_a_word_that_is_none_is_refused(word: str | None, outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    job = enqueue(outbox)
    with pytest.raises(
        psycopg.errors.InvalidParameterValue, match="status is one of PENDING, IN_PROGRESS, DONE, FAILED"
    ):
        poller.execute("UPDATE enrichment_outbox SET status = %s", [word])
    assert outbox.seen(job)["status"] == "PENDING"


@pytest.mark.contract("D-50")
@pytest.mark.parametrize(("end", "word"), [("DONE", "PENDING"), ("FAILED", "PENDING"), ("DONE", "IN_PROGRESS")])
def test_what_has_ended_does_not_begin_again(
    end: str, word: str, outbox: Outbox, poller: psycopg.Connection[Any]
) -> None:
    job = enqueue(outbox)
    claim(poller)
    poller.execute("UPDATE enrichment_outbox SET status = %s", [end])
    with pytest.raises(psycopg.Error, match=f"is {end} and cannot become {word}"):
        poller.execute("UPDATE enrichment_outbox SET status = %s", [word])
    assert poller.execute("UPDATE enrichment_outbox SET status = %s", [end]).rowcount == 1
    assert outbox.seen(job)["status"] == end


@pytest.mark.parametrize(
    "change",
    [
        "id = gen_random_uuid()",
        "item_id = gen_random_uuid()",
        "created_at = NOW()",
        "attempt_count = 7",
        "attempt_count = -1",
    ],
)
def test_what_a_row_is_cannot_be_changed(change: str, outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    enqueue(outbox)
    with pytest.raises(psycopg.Error, match=r"cannot be changed|rises by one"):
        poller.execute(f"UPDATE enrichment_outbox SET {change}")


def test_rows_are_not_deleted_by_hand(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    enqueue(outbox)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="not deleted by hand"):
        poller.execute("DELETE FROM enrichment_outbox")


# ---------------------------------------------------------------------- columns


@pytest.mark.contract("D-24", "D-25", "D-26", "D-27", "D-28")
def test_the_view_has_the_columns_of_004_in_their_types(outbox: Outbox) -> None:
    rows = outbox.run(
        "select column_name, data_type, character_maximum_length, column_default from information_schema.columns "
        "where table_schema = 'vault' and table_name = 'enrichment_outbox'"
    )
    found = {row[0]: row[1:] for row in rows}
    assert found["job_type"] == ("character varying", 50, "'enrichment'::character varying")
    assert found["run_at"] == ("timestamp with time zone", None, "now()")
    assert found["locked_by"] == ("character varying", 100, None)
    assert found["lease_expires_at"] == ("timestamp with time zone", None, None)
    assert found["last_error_code"] == ("character varying", 50, None)


@pytest.mark.contract("C-18", "C-19", "D-29")
def test_the_view_has_both_names_where_there_are_two(outbox: Outbox) -> None:
    rows = outbox.run(
        "select column_name from information_schema.columns "
        "where table_schema = 'vault' and table_name = 'enrichment_outbox' order by ordinal_position"
    )
    assert [row[0] for row in rows] == [
        "id", "item_id", "job_type", "status", "attempt_count", "run_at", "locked_by", "locked_at", "lease_expires_at",
        "last_error_code", "last_error_message", "created_at", "claimed_at", "last_error",
    ]  # fmt: skip


@pytest.mark.contract("D-24", "D-25")
def test_what_004_wants_not_null_is_not_null_where_it_is_stored(outbox: Outbox) -> None:
    rows = outbox.run(
        "select column_name from information_schema.columns where table_schema = 'penstock' and table_name = 'jobs' "
        "and is_nullable = 'NO' and column_name in ('job_type', 'run_at', 'status', 'attempt_count', 'created_at')"
    )
    assert len(rows) == 5


@pytest.mark.contract("D-91", "D-92", "C-17")
def test_one_table_holds_every_job_and_the_outbox_keeps_its_name(outbox: Outbox) -> None:
    names = outbox.run(
        "select n.nspname || '.' || c.relname, c.relkind::text from pg_class c "
        "join pg_namespace n on n.oid = c.relnamespace where c.relkind in ('r', 'v') "
        "and c.relname in ('job_outbox', 'dead_jobs', 'enrichment_outbox', 'dead_letters')"
    )
    assert dict(names) == {"vault.enrichment_outbox": "v", "penstock.dead_letters": "r"}


def test_rows_of_long_ago_come_first(outbox: Outbox, poller: psycopg.Connection[Any]) -> None:
    outbox.down()
    old = outbox.put("PENDING", created_at=LONG_AGO)
    outbox.up()
    enqueue(outbox)
    row = claim(poller)
    assert row is not None
    assert row["id"] == old
