"""Logins of each role on a database with one job of every kind, made fresh and made by an upgrade."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store import roles
from tests.support import clusters, upgraded

WORKER, OPERATOR, ORCHESTRATOR = roles.WORKER, roles.OPERATOR, roles.ORCHESTRATOR
FRONTEND, VIEWER = roles.FRONTEND, roles.VIEWER

POLICY = """{"audit": "full", "keep_finished": 864000.0, "keep_keys": 864000.0, "steps_required": true,
    "enqueue_role": "penstock_orchestrator", "daily_spend_cap": "5",
    "limits": {"running": 3, "rate": {"count": 10, "period": 60.0}, "key_running": 2, "key_rate": {"count": 5,
        "period": 60.0}}}"""
WORK = f"""
insert into penstock.types (job_type, policy, stages, max_attempts, audited, steps_required, keep_finished, keep_keys,
                            enqueue_role, max_running, rate_count, rate_period, key_max_running, key_rate_count,
                            key_rate_period)
values ('wall', '{POLICY}', '{{fetch,tell}}', 3, true, true, interval '10 days', interval '10 days',
        'penstock_orchestrator', 3, 10, interval '1 minute', 2, 5, interval '1 minute'),
       ('open', '{{}}', '{{run}}', 3, true, false, null, null, null, null, null, null, null, null, null),
       ('paused', '{{}}', '{{run}}', 3, false, false, null, null, null, null, null, null, null, null, null);
update penstock.types set paused_at = penstock.now(), paused_by = 'ann', pause_reason = 'release' where
    job_type = 'paused';
select penstock.enqueue('open', jsonb_build_object('name', name), name)
  from unnest(array['queued', 'held', 'foreign', 'parked', 'done', 'dead', 'later']) as name;
insert into penstock.workers (worker_id, instance, host, pid, version, types, concurrency, started_at,
    heartbeat_at, db_user)
values ('mine', gen_random_uuid(), 'here', 1, '1', '{{open}}', 4, penstock.now(), penstock.now(), 'penstock_worker'),
       ('other', gen_random_uuid(), 'here', 2, '1', '{{open}}', 4, penstock.now(), penstock.now(), 'another_login');
update penstock.jobs set status = 'processing', claim_seq = 1, claimed_at = penstock.now(), updated_at = penstock.now(),
       attempt_count = 2, reclaim_count = 2, run_id = gen_random_uuid(),
       claimed_by = case payload ->> 'name' when 'foreign' then 'other' else 'mine' end,
       lease_expires_at = penstock.now() + interval '1 hour'
 where payload ->> 'name' in ('held', 'foreign', 'parked', 'done', 'dead');
update penstock.jobs set status = 'batch_submitted', claimed_by = null, claimed_at = null, lease_expires_at = null,
       provider_batch_id = 'batch_1' where payload ->> 'name' = 'parked';
update penstock.jobs set status = 'completed', finished_at = penstock.now(), lease_expires_at = null
 where payload ->> 'name' = 'done';
with dead as (
    update penstock.jobs set status = 'failed', finished_at = penstock.now(), lease_expires_at = null,
           first_failure_at = penstock.now(), last_error_at = penstock.now(), last_error_code = 'SCHEMA_INVALID',
           last_error_message = 'words of an error'
     where payload ->> 'name' = 'dead' returning *)
select penstock.bury(job_id, null, job_type, stage, 'SCHEMA_INVALID', false, 'non_retryable', 'SCHEMA_INVALID: run:1',
                     '{{}}', 3, first_failure_at, null) from dead;
update penstock.jobs set run_at = penstock.now() + interval '1 day', ready = false where payload ->> 'name' = 'later';
insert into penstock.stages (job_id, stage, attempts, finished_at, result)
select job_id, 'fetch', 2, penstock.now(), '{{"n": 1}}' from penstock.jobs where payload ->> 'name' = 'held';
insert into penstock.effects (effect_key, kind, token, job_id, claim_seq, state, intended_at, done_at,
    perform_count, result)
select 'open:mail:1', 'mail', 'token-1', job_id, 1, 'done', penstock.now(), penstock.now(), 2, '{{"id": "m1"}}'
  from penstock.jobs where payload ->> 'name' = 'held';
insert into penstock.runs (run_id, function, trigger, worker_id, profile, started_at, finished_at, max_jobs_per_run,
                           max_runtime_seconds, claimed_count, failed_count)
values (gen_random_uuid(), 'drain', 'poll', 'mine', 'base', penstock.now(), penstock.now(), 10, 60, 10, 4);
insert into penstock.spend (day, job_type, provider, model, execution, calls, cost_micros)
values ((penstock.now() at time zone 'UTC')::date, 'wall', 'p', 'm', 'async', 3, 4000000);
insert into penstock.alerts (kind, severity) values ('test', 'page');
insert into penstock.schedules (schedule, job_type, every, next_due_at, payload)
values ('nightly', 'open', interval '1 day', penstock.now() + interval '1 day', '{{"words": "of a schedule"}}');
insert into penstock.batches (batch_id, state, job_type, stage, adapter, provider, model, prompt_version,
    policy_version,
    execution_mode, lane, source_locale, target_locale, item_count, body_bytes, body_sha256, provider_batch_id,
        created_at,
    submitted_at, erase_asked_at, cancel_asked_at)
values ('00000000-0000-0000-0000-00000000000b', 'submitted', 'open', 'run', 'a', 'p', 'm', '1', '1', 'batch',
    '', '', '', 1,
    1, 'x', 'batch_1', penstock.now(), penstock.now(), penstock.now(), penstock.now());
insert into penstock.batch_items (batch_id, batch_item_index, job_id, claim_seq, attempt, custom_id, state, settled_at,
    cost_micros)
select '00000000-0000-0000-0000-00000000000b', 0, job_id, 1, 1, 'c0', 'completed', penstock.now(), 9
  from penstock.jobs where payload ->> 'name' = 'done';
"""


@dataclass
class Town:
    """One database, a login for each role, and the jobs in it by name."""

    database: clusters.Database
    owner: psycopg.Connection[Any]
    logins: dict[str, psycopg.Connection[Any]] = field(default_factory=dict)

    def login(self, role: str) -> psycopg.Connection[Any]:
        """A connection of *role*, in autocommit."""
        if role not in self.logins:
            self.logins[role] = psycopg.connect(self.database.role_dsn(role), autocommit=True)
        return self.logins[role]

    def job(self, name: str) -> UUID:
        """The id of the job called *name*."""
        found = self.one("select job_id from penstock.jobs where payload ->> 'name' = %s", name)
        assert isinstance(found, UUID)
        return found

    def one(self, statement: str, *arguments: object) -> Any:
        """The first value that the owner sees."""
        row = self.owner.execute(statement, arguments).fetchone()
        return None if row is None else row[0]

    def refusal(self, role: str, statement: str) -> str | None:
        """The SQLSTATE with which *statement* is refused to *role*; None when it went through, and nothing is left."""
        connection = self.owner if role == "owner" else self.login(role)
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(statement)
                connection.execute("set constraints all immediate")
        except psycopg.Error as error:
            return error.sqlstate or type(error).__name__
        return None


@pytest.fixture(params=["fresh", "upgraded"])
def template(request: pytest.FixtureRequest, shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> str:
    """Every wall stands in a database that was made today and in one that came from the first revisions."""
    return clusters.TEMPLATE if request.param == "fresh" else upgraded.template(shared_server, admin)


@pytest.fixture
def town(database: clusters.Database) -> Iterator[Town]:
    """The database with its work and its logins."""
    with psycopg.connect(database.dsn, autocommit=True) as owner:
        owner.execute(WORK)
        made = Town(database, owner)
        yield made
        for connection in made.logins.values():
            connection.close()


Refuse = Callable[[str, str], str | None]
