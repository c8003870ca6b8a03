"""The schema says what the contract says: columns, widths, words, indexes, the clock."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest

from penstock import Audit, Failed, FailureClass, Penstock, Schedule
from penstock.contract.statuses import Status
from penstock.testing import Harness
from tests.support import clusters

# Column: type as the server writes it, and whether it may be null.
COLUMNS = {
    "job_id": ("uuid", False),
    "job_type": ("character varying(50)", False),
    "status": ("text", False),
    "run_at": ("timestamp with time zone", False),
    "created_at": ("timestamp with time zone", False),
    "updated_at": ("timestamp with time zone", False),
    "claimed_by": ("character varying(100)", True),
    "claimed_at": ("timestamp with time zone", True),
    "lease_expires_at": ("timestamp with time zone", True),
    "attempt_count": ("integer", False),
    "last_error_code": ("character varying(50)", True),
    "last_error_message": ("text", True),
    "last_error_at": ("timestamp with time zone", True),
    "claim_seq": ("bigint", False),
    "idempotency_key": ("text", True),
}


@pytest.fixture
def db(dsn: str) -> Any:
    """The owner's connection."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def columns_of(db: psycopg.Connection[Any], table: str) -> dict[str, tuple[str, bool]]:
    rows = db.execute(
        "select attname, format_type(atttypid, atttypmod), not attnotnull from pg_attribute "
        "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
        [table],
    ).fetchall()
    return {row[0]: (row[1], row[2]) for row in rows}


def put_type(db: psycopg.Connection[Any], job_type: str = "t") -> None:
    db.execute(
        "insert into penstock.types (job_type, policy, stages, max_attempts) values (%s, '{}', '{run}', 3)", [job_type]
    )


def put_job(db: psycopg.Connection[Any]) -> Any:
    put_type(db)
    return db.execute("select penstock.enqueue('t')").fetchall()[0][0]


@pytest.mark.contract("D-05", "C-18", "Q-19", "D-27", "D-28")
def test_the_job_table_has_the_columns_of_the_contract_under_one_name_each(db: psycopg.Connection[Any]) -> None:
    found = columns_of(db, "penstock.jobs")
    assert {name: found[name] for name in COLUMNS} == COLUMNS


@pytest.mark.contract("C-19", "C-18")
def test_no_second_name_for_a_thing_is_stored(db: psycopg.Connection[Any]) -> None:
    second_names = {"locked_at", "locked_by", "not_before_at", "last_error", "task", "lease_until", "retry_count"}
    assert second_names.isdisjoint(columns_of(db, "penstock.jobs"))


@pytest.mark.contract("C-17", "D-92")
def test_one_table_holds_the_jobs_of_every_type(db: psycopg.Connection[Any]) -> None:
    """An application may keep facts of its own beside a job; what can be claimed stands in one place."""
    tables = db.execute(
        "select relname from pg_class c where relkind in ('r', 'p') and relname ~ '(outbox|jobs)$' "
        "and relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) "
        "and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'claimed_by')"
    ).fetchall()
    assert tables == [("jobs",)]


@pytest.mark.contract("D-24", "D-26", "D-28")
@pytest.mark.parametrize(("column", "width"), [("job_type", 50), ("claimed_by", 100), ("last_error_code", 50)])
def test_a_word_that_is_too_long_is_refused_and_one_that_fits_is_kept(
    column: str, width: int, db: psycopg.Connection[Any]
) -> None:
    if column == "job_type":
        put_type(db, "t" * width)
        with pytest.raises(psycopg.errors.StringDataRightTruncation):
            put_type(db, "t" * (width + 1))
        return
    job_id = put_job(db)
    db.execute(f"update penstock.jobs set {column} = %s where job_id = %s", ["w" * width, job_id])
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        db.execute(f"update penstock.jobs set {column} = %s where job_id = %s", ["w" * (width + 1), job_id])


@pytest.mark.contract("D-24", "D-25")
def test_a_job_without_a_type_or_a_due_time_cannot_be_stored(db: psycopg.Connection[Any]) -> None:
    job_id = put_job(db)
    for column in ("run_at", "job_type"):
        with pytest.raises(psycopg.errors.NotNullViolation):
            db.execute(f"update penstock.jobs set {column} = null where job_id = %s", [job_id])
    stored = db.execute("select run_at = created_at, run_at is not null from penstock.jobs").fetchall()
    assert stored == [(True, True)], "no due time means the time of the enqueue"


@pytest.mark.contract("Q-10", "Q-25")
def test_the_six_statuses_are_stored_and_a_seventh_is_refused(db: psycopg.Connection[Any]) -> None:
    (check,) = db.execute(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = 'jobs_status_known'"
    ).fetchall()[0]
    assert {word for word in Status if f"'{word}'" in check} == set(Status)
    assert len(Status) == 6
    job_id = put_job(db)
    with pytest.raises(psycopg.Error) as refused:
        db.execute("update penstock.jobs set status = 'paused' where job_id = %s", [job_id])
    assert refused.value.sqlstate in ("PS001", "23514")


@pytest.mark.contract("D-30", "D-31", "C-17", "C-21")
def test_the_two_indexes_carry_the_names_and_predicates_of_the_contract(db: psycopg.Connection[Any]) -> None:
    found = dict(db.execute("select indexname, indexdef from pg_indexes where tablename = 'jobs'").fetchall())
    runnable, expired = found["idx_outbox_runnable"], found["idx_outbox_expired_lease"]
    assert "created_at" in runnable
    assert "WHERE ((status = 'queued'::text) AND ready)" in runnable
    assert "(lease_expires_at)" in expired
    assert "WHERE ((status = 'processing'::text) AND (lease_expires_at IS NOT NULL))" in expired


@pytest.mark.contract("Q-28", "Q-31", "Q-29", "D-27")
async def test_claim_and_error_columns_are_null_at_the_start_and_set_by_what_happens(dsn: str) -> None:
    app = Penstock(dsn)
    seen: list[dict[str, Any]] = []

    @app.job("fails", attempts=2, backoff=Schedule([60]), audit=Audit.FULL)
    async def fails() -> None:
        seen.append(dict(await h.job(job_id)))
        raise Failed(FailureClass.NETWORK_TIMEOUT)

    async with Harness(app) as h:
        job_id = await h.enqueue("fails")
        before = await h.job(job_id)
        await h.drain()
        after = await h.job(job_id)
    names = ("claimed_at", "claimed_by", "lease_expires_at", "last_error_code", "last_error_message", "last_error_at")
    assert [before[name] for name in names] == [None] * 6
    assert before["attempt_count"] == 0
    assert seen[0]["claimed_by"] == "harness"
    assert seen[0]["lease_expires_at"] > seen[0]["claimed_at"]
    assert after["last_error_code"] == "NETWORK_TIMEOUT"
    assert isinstance(after["last_error_at"], datetime)
    assert (after["claimed_by"], after["claimed_at"], after["lease_expires_at"]) == (None, None, None)
    assert (after["attempt_count"], after["status"]) == (1, "queued")


@pytest.mark.contract("Q-43", "C-22")
async def test_times_are_stored_with_a_zone_and_read_as_utc_whatever_zone_the_database_has(
    database: clusters.Database,
) -> None:
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute(f"alter database {database.name} set timezone = 'Asia/Tokyo'")
        wrong = connection.execute(
            "select table_name, column_name from information_schema.columns "
            "where table_schema = 'penstock' and data_type = 'timestamp without time zone'"
        ).fetchall()
        assert wrong == []
    app = Penstock(database.dsn)

    @app.job("note")
    async def note() -> None: ...

    due = datetime(2030, 7, 1, 12, tzinfo=ZoneInfo("Pacific/Auckland"))
    async with Harness(app) as h:
        job_id = await h.enqueue("note", run_at=due)
        row = await h.job(job_id)
        text = await h.app.pool.fetchval("select run_at::text from penstock.jobs where job_id = $1", job_id)
    assert row["run_at"] == due
    assert row["run_at"].utcoffset() == timedelta(0)
    assert text == "2030-07-01 00:00:00+00"
