"""A database of the first landed revisions with work of every kind in it, and the way up from there."""

from functools import partial
from typing import Any, Final

import psycopg

from penstock.embedded import EmbeddedServer
from penstock.store import migrate
from tests.support import clusters

TEMPLATE: Final = "penstock_template_upgraded"
# The newest revision of each line when migrations were frozen.
FROZEN: Final = {"engine": "0001", "review": "0001", "rewrite": "0001", "vault": "0002"}

# One job in each status, with what the engine wrote beside it at 0001.
LOAD: Final = """
insert into penstock.types (job_type, policy, stages, max_attempts, audited, steps_required, keep_finished, keep_keys,
                            max_running, enqueue_role)
values ('old', '{"audit": "full", "keep_finished": 864000.0, "keep_keys": 864000.0, "steps_required": true,
          "enqueue_role": null, "daily_spend_cap": "5", "limits": {"running": 3, "rate": null, "key_running": null,
          "key_rate": null}}', '{run}', 3, true, true, interval '10 days', interval '10 days', 3, null);
select penstock.enqueue('old', jsonb_build_object('n', n), 'k' || n) from generate_series(1, 60) as n;
update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'old-1', claimed_at = penstock.now(),
       lease_expires_at = penstock.now() + interval '1 hour', updated_at = penstock.now()
 where (payload ->> 'n')::integer > 10;
update penstock.jobs set status = 'completed', finished_at = penstock.now(), lease_expires_at = null
 where (payload ->> 'n')::integer between 21 and 30;
with dead as (
    update penstock.jobs set status = 'failed', finished_at = penstock.now(), lease_expires_at = null,
        attempt_count = 3,
           first_failure_at = penstock.now(), last_error_at = penstock.now(), last_error_code = 'SCHEMA_INVALID'
     where (payload ->> 'n')::integer between 31 and 40 returning *)
select penstock.bury(job_id, null, job_type, stage, 'SCHEMA_INVALID', false, 'non_retryable', 'SCHEMA_INVALID: run:1',
                     '{}', 3, first_failure_at, null) from dead;
select penstock.cancel(job_id, 'ann', 'not needed') from penstock.jobs where (payload ->> 'n')::integer between
    41 and 50;
update penstock.jobs set status = 'queued', ready = true, claimed_by = null, claimed_at = null, lease_expires_at = null,
       attempt_count = 1 where (payload ->> 'n')::integer between 51 and 60;
insert into penstock.workers (worker_id, instance, host, pid, version, types, concurrency, started_at, heartbeat_at)
values ('old-1', gen_random_uuid(), 'here', 1, '0.1.0', '{old}', 4, penstock.now(), penstock.now());
insert into penstock.runs (run_id, function, trigger, worker_id, profile, started_at, max_jobs_per_run,
    max_runtime_seconds,
                           claimed_count)
values (gen_random_uuid(), 'drain', 'poll', 'old-1', 'base', penstock.now(), 10, 60, 10);
insert into penstock.effects (effect_key, kind, token, job_id, claim_seq, intended_at)
select 'old:mail:' || job_id, 'mail', 'token', job_id, claim_seq, penstock.now() from penstock.jobs where
    status = 'processing';
insert into penstock.alerts (kind, severity) values ('old', 'info');
select penstock.create_key('abcdefghijkl', sha256('secret'), 'operator', null, null, 'console', 'ann', interval
    '1 year');
"""
STATUSES: Final = {"queued": 20, "processing": 10, "completed": 10, "failed": 10, "canceled": 10}


def at_frozen(dsn: str) -> None:
    """Bring the database at *dsn* to the frozen revisions and put work into it."""
    for line in migrate.lines():
        clusters.outside_any_loop(partial(migrate.upgrade, dsn, FROZEN[line.name], to=[line]))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(LOAD)


def upgrade(dsn: str) -> None:
    """The way from there to the newest revisions."""
    clusters.migrate_template(dsn)


def template(server: EmbeddedServer, admin: psycopg.Connection[Any]) -> str:
    """The name of a template that came all that way."""

    def furnish(dsn: str) -> None:
        at_frozen(dsn)
        upgrade(dsn)

    return clusters.template_from("template1", TEMPLATE, furnish, server, admin)
