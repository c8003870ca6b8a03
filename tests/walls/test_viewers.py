"""A login of penstock_viewer sees what a page shows, and no word of a payload, a result or an error."""

import pytest

from tests.walls.conftest import VIEWER, Town

CANARY = "canary-of-the-walls"


@pytest.mark.contract("C-68")
def test_a_viewer_reads_no_payload_no_result_and_no_text_of_an_error(town: Town) -> None:
    town.owner.execute("update penstock.jobs set last_error_message = %s where payload ->> 'name' = 'held'", [CANARY])
    town.owner.execute("update penstock.dead_letters set last_stack = %s, remediation = %s, notes = %s", [CANARY] * 3)
    town.owner.execute("update penstock.stages set result = to_jsonb(%s::text)", [CANARY])
    town.owner.execute("update penstock.effects set result = to_jsonb(%s::text)", [CANARY])
    town.owner.execute("update penstock.schedules set payload = to_jsonb(%s::text)", [CANARY])
    town.owner.execute("select penstock.enqueue('open', jsonb_build_object('name', %s::text))", [CANARY])
    town.owner.execute(
        "select penstock.cancel(job_id, 'ann', %s) from penstock.jobs where payload ->> 'name' = 'later'", [CANARY]
    )
    viewer, readable = town.login(VIEWER), 0
    columns = town.owner.execute(
        "select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid "
        "where c.relnamespace = 'penstock'::regnamespace and c.relkind in ('r', 'v') and a.attnum > 0 and "
        "not a.attisdropped"
    ).fetchall()
    for table, column in columns:
        if not town.one(
            "select has_column_privilege(%s, %s::regclass, %s, 'select')", VIEWER, f"penstock.{table}", column
        ):
            continue
        readable += 1
        found = viewer.execute(
            f"select count(*) from penstock.{table} where {column}::text like %s",
            [f"%{CANARY}%"],
        ).fetchone()
        assert found == (0,), f"{table}.{column}"
    assert readable > 150


@pytest.mark.contract("C-68")
def test_a_viewer_sees_what_waits_what_failed_and_what_it_cost(town: Town) -> None:
    viewer = town.login(VIEWER)
    for question in (
        "select job_id, status, job_type, attempt_count, last_error_code from penstock.jobs where status = 'failed'",
        "select dead_letter_id, error_class, state from penstock.dead_letters",
        "select batch_id, open_items, cost_micros from penstock.batch_overview",
        "select day, cost_micros from penstock.spend",
        "select worker_id, heartbeat_at from penstock.workers",
        "select job_type, paused_at, breaker from penstock.types",
        "select at, db_user, actor, action from penstock.operator_events",
    ):
        assert viewer.execute(question).fetchall(), question
