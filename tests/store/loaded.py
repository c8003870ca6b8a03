"""A job table with a past and a future, loaded in bulk, for tests of plans."""

from typing import Any, Final

import psycopg

FINISHED, READY, FUTURE, DUE, PROCESSING, EXPIRED, SUSPECTS = 50_000, 10_000, 20_000, 500, 5_000, 200, 300
SERVED, OTHER, GATED, KEYED = "served", "other", "gated", "keyed"

TYPES: Final = """
insert into penstock.types (job_type, policy, stages, max_attempts, max_running, key_max_running) values
    ('served', '{}', '{run}', 5, null, null), ('other', '{}', '{run}', 5, null, null),
    ('gated', '{}', '{run}', 5, 100000, null), ('keyed', '{}', '{run}', 5, null, 100000)
"""
# Expressions; n is the number of the row. What a kind does not say is as for a ready job of the served type.
USUAL: Final = {
    "job_id": "gen_random_uuid()",
    "created_at": "now() - interval '1 day' + n * interval '1 millisecond'",
    "updated_at": "now()",
    "run_at": "now()",
    "ready": "true",
    "status": "'queued'",
    "job_type": "'served'",
    "stage": "'run'",
    "priority": "0",
    "max_attempts": "5",
    "payload": """'{"n": 1}'""",
}
CLAIMED: Final = {"claim_seq": "1", "claimed_at": "now()", "claimed_by": "'w'"}
ENDED: Final = {**CLAIMED, "finished_at": "now() - interval '30 days'"}
HELD: Final = {**CLAIMED, "status": "'processing'", "lease_expires_at": "now() + interval '1 hour'"}
KINDS: Final[list[tuple[int, dict[str, str]]]] = [
    (FINISHED, {**ENDED, "status": "'completed'", "idempotency_key": "'served:done-' || n"}),
    (500, {**ENDED, "status": "'failed'", "last_error_code": "'RUNTIME_BUG'", "last_error_at": "now()"}),
    (READY, {"idempotency_key": "'served:ready-' || n"}),
    (READY, {"job_type": "'other'", "priority": "-5", "idempotency_key": "'other:ready-' || n"}),
    (READY, {"job_type": "'gated'"}),
    (READY, {"job_type": "'keyed'", "limit_key": "'key ' || n % 100"}),
    # More urgent than anything that is ready.
    (FUTURE, {"ready": "false", "priority": "-9", "run_at": "now() + interval '1 year'"}),
    (DUE, {"ready": "false", "run_at": "now() - interval '1 second'"}),
    (SUSPECTS, {"ready": "false", "suspect": "true", "run_at": "now() - interval '1 minute'"}),
    (PROCESSING, HELD),
    (EXPIRED, {**HELD, "claimed_by": "'gone'", "lease_expires_at": "now() - interval '1 hour'"}),
    (1_000, {**CLAIMED, "status": "'batch_submitted'"}),
]


def load(superuser_dsn: str, *, analysed: bool) -> None:
    """Fill the table; with *analysed* the planner knows it, without it remembers an almost empty one."""
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        connection.execute("alter table penstock.jobs set (autovacuum_enabled = false)")
        connection.execute("set session_replication_role = replica")
        connection.execute(TYPES)
        if not analysed:
            insert(connection, 10, {})
            connection.execute("vacuum analyze penstock.jobs")
        for number, kind in KINDS:
            insert(connection, number, kind)
        if analysed:
            connection.execute("vacuum analyze penstock.jobs")


def insert(connection: psycopg.Connection[Any], number: int, kind: dict[str, str]) -> None:
    """Add *number* jobs of one kind: 15 times as fast as `penstock.enqueue`."""
    columns = {**USUAL, **kind}
    connection.execute(
        f"insert into penstock.jobs ({', '.join(columns)}) "
        f"select {', '.join(columns.values())} from generate_series(1, {number}) as n"
    )
