"""The columns of 004, word for word."""

from __future__ import annotations

import pytest

from tests.apps.vault.takeover.claims import Poller, claim, enqueue
from tests.apps.vault.takeover.outbox import LONG_AGO, Outbox


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


@pytest.mark.contract("C-18", "C-19")
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


def test_rows_of_long_ago_come_first(outbox: Outbox, poller: Poller) -> None:
    outbox.down()
    old = outbox.put("PENDING", created_at=LONG_AGO)
    outbox.up()
    enqueue(outbox)
    row = claim(poller)
    assert row is not None
    assert row["id"] == old
