"""Up, down and up again: every row is somewhere, once, and none is another than it was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.apps.vault.migrations import LINE
from penstock.embedded import EmbeddedServer
from penstock.store import migrate
from tests.apps.vault.takeover import statements as say
from tests.apps.vault.takeover.outbox import D12, LONG_AGO, Outbox
from tests.support import clusters

TABLE: Final = "vault.enrichment_outbox"
COLUMNS: Final = (*D12, "lease_expires_at", "locked_by", "last_error_code", "tenant")


def rows(outbox: Outbox) -> list[dict[str, Any]]:
    return outbox.rows(f"select * from {TABLE} order by id")


@pytest.mark.contract("D-70", "D-29", "C-17")
def test_up_down_and_up_by_alembic_keeps_every_row_of_every_state(outbox: Outbox) -> None:
    for status in ("PENDING", "DONE", "FAILED"):
        for attempts in (0, 3):
            outbox.put(
                status, attempt_count=attempts, claimed_at=LONG_AGO, last_error="boom: 'x'" if attempts else None
            )
    claimed = outbox.put("IN_PROGRESS", claimed_at=LONG_AGO)
    outbox.put("BANANA", attempt_count=-7)
    before = rows(outbox)
    migrate.upgrade(outbox.database.dsn, to=[LINE])
    migrate.downgrade(outbox.database.dsn, "0001", of=[LINE])
    after = rows(outbox)
    given_back = {"status": "PENDING", "claimed_at": None}
    assert after == [{**row, **given_back} if row["id"] == claimed else row for row in before]
    assert outbox.run("select count(*) from penstock.jobs") == [(0,)]
    assert outbox.run("select count(*) from penstock.dead_letters") == [(0,)]

    migrate.upgrade(outbox.database.dsn, to=[LINE])
    assert outbox.run("select status, count(*) from penstock.jobs group by 1 order by 1") == [
        ("completed", 2), ("failed", 2), ("queued", 3),
    ]  # fmt: skip
    assert len(outbox.problems()) == 1
    assert outbox.run("select count(*) from penstock.dead_letters") == [(2,)]


@pytest.mark.contract("D-12")
def test_the_table_of_before_has_exactly_its_seven_columns_at_first_and_after_the_way_back(outbox: Outbox) -> None:
    columns = f"select attname from pg_attribute where attrelid = '{TABLE}'::regclass and attnum > 0 order by attnum"
    assert tuple(row[0] for row in outbox.run(columns)) == D12
    outbox.up()
    outbox.down()
    assert tuple(row[0] for row in outbox.run(columns)) == D12
    assert outbox.run(f"select relkind::text from pg_class where oid = '{TABLE}'::regclass") == [("r",)]


def test_rows_that_came_through_the_view_go_into_the_table_with_what_became_of_them(outbox: Outbox) -> None:
    outbox.up()
    ids = [uuid4() for _ in range(4)]
    with outbox.legacy() as legacy:
        for job in ids:
            legacy.execute(say.OLD_INSERT, {"id": job, "item_id": outbox.item()})
        for _ in range(3):
            legacy.execute(say.OLD_CLAIM)
        legacy.execute(say.OLD_DONE, {"job_id": ids[0]})
        legacy.execute(say.OLD_RETRY, {"job_id": ids[1], "error": "boom"})
    outbox.run("select penstock.cancel(%s, 'op', 'no more')", ids[3])
    outbox.down()
    found = {row["id"]: (row["status"], row["attempt_count"], row["last_error"]) for row in rows(outbox)}
    assert found == {
        ids[0]: ("DONE", 0, None),
        ids[1]: ("PENDING", 1, "boom"),
        ids[2]: ("PENDING", 0, None),  # its claim does not survive the way back
        ids[3]: ("FAILED", 0, "canceled by op: no more"),
    }


def test_an_outbox_of_somebody_elses_schema_keeps_its_place_its_types_and_its_columns(outbox: Outbox) -> None:
    outbox.run(f"drop table {TABLE}")
    outbox.run("create type public.outbox_status as enum ('PENDING', 'IN_PROGRESS', 'DONE', 'FAILED')")
    outbox.run(
        "create table public.enrichment_outbox (id varchar(36) primary key, item_id varchar(36) not null, "
        "status public.outbox_status not null default 'PENDING', attempt_count int not null default 0, "
        "claimed_at timestamp, last_error varchar(500), created_at timestamp not null default now(), "
        "tenant text not null default 'acme', number bigint generated always as identity)"
    )
    item, row = outbox.item(), str(uuid4())
    outbox.put("PENDING", id=row, item_id=str(item), tenant="globex", table="public.enrichment_outbox")
    before = outbox.rows("select * from public.enrichment_outbox")
    outbox.up()
    seen = outbox.one("select * from public.enrichment_outbox where id = %s", row)
    assert (seen["id"], seen["item_id"], seen["status"], seen["created_at"]) == (
        row, str(item), "PENDING", before[0]["created_at"],
    )  # fmt: skip
    assert outbox.seen(row)["id"] == UUID(row)
    late = str(uuid4())
    outbox.run("insert into public.enrichment_outbox (id, item_id) values (%s, %s)", late, str(outbox.item()))
    taken = outbox.run(
        "update public.enrichment_outbox set status = 'IN_PROGRESS', claimed_at = now() where id = %s returning id", row
    )
    assert taken == [(row,)]
    outbox.run("update public.enrichment_outbox set status = 'DONE' where id = %s", row)
    outbox.down()
    found = outbox.rows("select id, status::text, tenant, number from public.enrichment_outbox order by number")
    assert [(r["id"], r["status"], r["tenant"]) for r in found] == [(row, "DONE", "globex"), (late, "PENDING", "acme")]
    assert found[0]["number"] == before[0]["number"]
    assert outbox.run("select to_regclass('vault.enrichment_outbox') is null") == [(True,)]


def test_two_outboxes_are_not_guessed_between(outbox: Outbox) -> None:
    outbox.run(f"create table public.enrichment_outbox (like {TABLE})")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="2 tables called enrichment_outbox"):
        outbox.up()


def test_an_outbox_that_was_there_is_not_dropped_with_the_vault(
    empty: clusters.Database, shared_server: EmbeddedServer
) -> None:
    with psycopg.connect(empty.dsn, autocommit=True) as db:
        db.execute(
            "create table public.enrichment_outbox (id uuid, item_id uuid, status text, attempt_count int, "
            "created_at timestamptz)"
        )
        db.execute(
            "insert into public.enrichment_outbox values (gen_random_uuid(), gen_random_uuid(), 'DONE', 0, now())"
        )
    migrate.upgrade(empty.dsn, to=[migrate.ENGINE, LINE])
    migrate.downgrade(empty.dsn, "base", of=[LINE])
    with psycopg.connect(empty.dsn) as db:
        assert db.execute("select status from public.enrichment_outbox").fetchall() == [("DONE",)]
        assert db.execute(
            "select relname from pg_class where relnamespace = 'vault'::regnamespace and relkind = 'r'"
        ).fetchall() == [("schema_version",)]


@pytest.fixture
def empty(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[clusters.Database]:
    """A database without any schema of ours."""
    made = clusters.Database(f"test_{uuid4().hex}", shared_server)
    clusters.create(admin, made.name)
    yield made
    clusters.drop(made, admin)


# ---------------------------------------------------------------- any row at all

ITEMS: Final = [str(UUID(int=number, version=4)) for number in range(1, 6)]
WORDS: Final = ["PENDING", "IN_PROGRESS", "DONE", "FAILED", "DEAD"]
TEXT: Final = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
MOMENTS: Final = st.datetimes().map(str) | st.sampled_from(
    ["2026-01-01T00:00:00Z", "infinity", "-infinity", "now", "epoch", "2025-02-30", "0044-03-15 BC", "12:00"]
)
ROW: Final = st.fixed_dictionaries(
    {
        "id": st.none() | st.uuids().map(str) | st.sampled_from(["1", "2", ITEMS[0], ITEMS[0].upper()]) | TEXT,
        "item_id": st.sampled_from(ITEMS) | st.none() | st.uuids().map(str) | TEXT,
        "status": st.sampled_from(WORDS) | st.none() | TEXT,
        "attempt_count": st.integers(0, 4).map(str) | st.none() | st.integers().map(str) | TEXT,
        "created_at": st.just("2026-01-01T00:00:00Z") | st.none() | MOMENTS | TEXT,
        "claimed_at": st.none() | MOMENTS | TEXT,
        "last_error": st.none() | TEXT,
        "lease_expires_at": st.none() | MOMENTS,
        "locked_by": st.none() | TEXT | st.just("w" * 101),
        "last_error_code": st.none() | TEXT,
        "tenant": st.none() | TEXT,
    }
)
LIKELY: Final = st.fixed_dictionaries(
    {
        "id": st.uuids().map(str) | st.integers(1, 9).map(str),
        "item_id": st.sampled_from(ITEMS),
        "status": st.sampled_from(WORDS),
        "attempt_count": st.integers(0, 5).map(str),
        "created_at": st.datetimes(
            min_value=LONG_AGO.replace(tzinfo=None, year=1971), max_value=LONG_AGO.replace(tzinfo=None)
        ).map(str),
        "claimed_at": st.none() | st.just("2025-12-29T10:00:00Z"),
        "last_error": st.none() | TEXT,
        "lease_expires_at": st.none(),
        "locked_by": st.none(),
        "last_error_code": st.none() | st.just("RATE_LIMITED"),
        "tenant": st.just("acme"),
    }
)


def canonical(row: dict[str, Any]) -> str:
    """A row but for what a job cannot keep: a claim that was given back, the spelling of a moment, DEAD for FAILED."""
    kept = {
        name: value
        for name, value in row.items()
        if name not in {"created_at", "claimed_at", "lease_expires_at", "locked_by"}
    }
    kept["status"] = {"IN_PROGRESS": "PENDING", "DEAD": "FAILED"}.get(kept["status"], kept["status"])
    return json.dumps(kept, sort_keys=True)


@pytest.fixture
def taken(loose: Outbox) -> Outbox:
    """The same after the take-over."""
    loose.up()
    return loose


@pytest.fixture
def loose(outbox: Outbox) -> Outbox:
    """An outbox that holds anything."""
    outbox.run(f"drop table {TABLE}")
    outbox.run(f"create table {TABLE} ({', '.join(f'{name} text' for name in COLUMNS)})")
    for item in ITEMS:
        outbox.run("insert into vault.items (id, owner_id, kind, content) values (%s, %s, 'note', 'x')", item, uuid4())
    return outbox


def fill(loose: Outbox, found: list[dict[str, str | None]]) -> None:
    for row in found:
        loose.run(f"insert into {TABLE} ({', '.join(row)}) values ({', '.join(['%s'] * len(row))})", *row.values())


def ended(loose: Outbox) -> tuple[int, int, int]:
    """Jobs, jobs that have failed, dead letters."""
    (counts,) = loose.run(
        "select (select count(*) from penstock.jobs), (select count(*) from penstock.jobs where status = 'failed'), "
        "(select count(*) from penstock.dead_letters)"
    )
    return counts[0], counts[1], counts[2]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(ROW | LIKELY, max_size=12))
@pytest.mark.contract("C-17")
def test_whatever_a_row_holds_it_is_moved_or_quarantined_with_a_named_problem(
    found: list[dict[str, str | None]], taken: Outbox
) -> None:
    with taken.db.transaction(force_rollback=True):
        taken.run("select vault.register_enrichment()")
        taken.run("select vault.move_in(%s::jsonb[], true)", [json.dumps(row) for row in found])
        jobs, failed, letters = ended(taken)
        assert jobs + len(taken.problems()) == len(found)
        assert all(taken.problems())
        assert failed == letters
        kept = Counter(
            json.dumps(row[0], sort_keys=True) for row in taken.run('select "row" from vault.outbox_quarantine')
        )
        assert kept <= Counter(json.dumps(row, sort_keys=True) for row in found)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(ROW | LIKELY, min_size=10, max_size=40))
@pytest.mark.contract("D-70", "C-17")
def test_whatever_a_row_holds_up_and_down_and_up_keeps_it(found: list[dict[str, str | None]], loose: Outbox) -> None:
    with loose.db.transaction(force_rollback=True):
        fill(loose, found)
        loose.up()
        moved = ended(loose)[0]
        loose.down()
        assert Counter(map(canonical, rows(loose))) == Counter(map(canonical, found))
        loose.up()
        assert ended(loose)[0] == moved
        assert moved + len(loose.problems()) == len(found)
