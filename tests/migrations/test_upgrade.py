"""From the frozen revisions to the newest and back, on a loaded database, with workers and producers at work."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, Self
from uuid import uuid4

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store import migrate, roles
from tests.migrations.catalogs import catalog
from tests.support import clusters, upgraded

SCHEMAS: Final = ("penstock", "review", "rewrite", "vault")
STATUSES: Final = "select status, count(*) from penstock.jobs where job_type = 'old' group by 1"
# What a worker and a producer of the frozen revision send, in its own words.
TAKE: Final = """
    update penstock.jobs as job
       set status = 'processing', claim_seq = job.claim_seq + 1, claimed_by = 'old-2', run_id = null,
           claimed_at = (select penstock.now()), updated_at = (select penstock.now()),
           lease_expires_at = (select penstock.now()) + interval '5 minutes'
     where job.job_id = any(array(
           select j.job_id from penstock.jobs as j join penstock.types as t on t.job_type = j.job_type and not t.gated
            where j.job_type = 'busy' and j.status = 'queued' and j.ready
            order by j.priority, j.created_at, j.job_id limit 5 for update of j skip locked))
    returning job.job_id, job.claim_seq, (job.payload ->> 'n')::integer"""
COMPLETE: Final = """
    update penstock.jobs set status = 'completed', finished_at = penstock.now(), updated_at = penstock.now(),
           lease_expires_at = null
     where job_id = %s and claim_seq = %s and claimed_by = 'old-2' and status = 'processing'"""
FAIL: Final = """
    with moved as (
        update penstock.jobs as job
           set status = 'failed', finished_at = penstock.now(), updated_at = penstock.now(), lease_expires_at = null,
               attempt_count = job.attempt_count + 1, first_failure_at = coalesce(job.first_failure_at, penstock.now()),
               last_error_at = penstock.now(), last_error_code = 'NOT_FOUND'
         where job_id = %s and claim_seq = %s and claimed_by = 'old-2' and status = 'processing'
        returning *)
    select penstock.bury(moved.job_id, moved.replay_of_job_id, moved.job_type, moved.stage, 'NOT_FOUND', false,
                         'non_retryable', 'NOT_FOUND: run:1', '{}', 1, moved.first_failure_at, null) from moved"""
REGISTER: Final = """
    insert into penstock.workers (worker_id, instance, host, pid, version, types, concurrency, started_at, heartbeat_at)
    values ('old-2', gen_random_uuid(), 'here', 2, '0.1.0', '{busy}', 4, penstock.now(), penstock.now())"""
BEAT: Final = "update penstock.workers set heartbeat_at = penstock.now(), running = 1 where worker_id = 'old-2'"
JOBS: Final = 120


@pytest.fixture(autouse=True)
def _engine_and_ledger() -> None:
    """All lines that are installed, unlike in the other tests of this folder."""


@pytest.fixture
def template() -> str:
    """The engine and all applications."""
    return clusters.TEMPLATE


@pytest.fixture
def frozen(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[clusters.Database]:
    """A database at the frozen revisions with work in it."""
    made = clusters.Database(f"test_{uuid4().hex}", shared_server)
    admin.execute(f"create database {made.name} owner penstock")
    upgraded.at_frozen(made.dsn)
    yield made
    clusters.drop(made, admin)


def to_frozen(dsn: str) -> None:
    for line in reversed(migrate.lines()):
        clusters.outside_any_loop(partial(migrate.downgrade, dsn, upgraded.FROZEN[line.name], of=[line]))


def asked(dsn: str, question: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(question).fetchall()


def rows(dsn: str) -> dict[str, Any]:
    """What there is, as far as a revision must not change it."""
    questions = {
        "jobs": "select job_id, status, attempt_count, claim_seq, payload, idempotency_key from "
        "penstock.jobs order by 1",
        "letters": "select job_id, error_class, state from penstock.dead_letters order by 1",
        "moves": "select count(*) from penstock.job_events",
        "effects": "select effect_key, state, token from penstock.effects order by 1",
        "keys": "select key_id, name from penstock.api_keys",
    }
    return {name: asked(dsn, question) for name, question in questions.items()}


@pytest.mark.contract("C-70", "D-70")
def test_a_loaded_database_goes_up_and_down_and_keeps_every_row(frozen: clusters.Database) -> None:
    schemas, before = {name: catalog(frozen.dsn, name) for name in SCHEMAS}, rows(frozen.dsn)
    upgraded.upgrade(frozen.dsn)
    assert dict(asked(frozen.dsn, STATUSES)) == upgraded.STATUSES
    assert rows(frozen.dsn) == before
    newest = {name: catalog(frozen.dsn, name) for name in SCHEMAS}
    to_frozen(frozen.dsn)
    for schema, made in schemas.items():
        for kind, found in catalog(frozen.dsn, schema).items():
            assert found == made[kind], f"{kind} of {schema}"
    assert rows(frozen.dsn) == before
    upgraded.upgrade(frozen.dsn)
    assert {name: catalog(frozen.dsn, name) for name in SCHEMAS} == newest


@pytest.mark.contract("C-70")
def test_the_way_up_gives_the_same_schema_as_a_fresh_start(frozen: clusters.Database, dsn: str) -> None:
    upgraded.upgrade(frozen.dsn)
    for name, made in catalog(frozen.dsn).items():
        fresh = catalog(dsn)[name]
        if name == "columns":  # a column that was added stands last, wherever the table was made
            made, fresh = sorted(made), sorted(fresh)  # noqa: PLW2901
        assert made == fresh, name


class Busy:
    """A worker and a producer of before, until they are asked to stop; what they could not do is kept."""

    def __init__(self, database: clusters.Database) -> None:
        self.stop = threading.Event()
        self.some = threading.Event()
        self.errors: list[str] = []
        self.done: list[int] = []
        self.put = 0
        work = (
            partial(self._work, database.role_dsn(roles.WORKER)),
            partial(self._produce, database.role_dsn(roles.ORCHESTRATOR)),
        )
        self._threads = [threading.Thread(target=target) for target in work]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(60)

    def _produce(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not self.stop.is_set() or self.put < JOBS:
                try:
                    connection.execute(
                        "select penstock.enqueue('busy', jsonb_build_object('n', %s::integer))", [self.put]
                    )
                    self.put += 1
                except psycopg.Error as error:
                    self.errors.append(f"enqueue {error.sqlstate}")
                    return

    def _work(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(REGISTER)
            while not self.stop.is_set() or len(self.done) < self.put:
                try:
                    for job_id, claim_seq, n in connection.execute(TAKE).fetchall():
                        connection.execute(FAIL if n % 7 == 0 else COMPLETE, [job_id, claim_seq])
                        self.done.append(n)
                        if len(self.done) >= 20:
                            self.some.set()
                    connection.execute(BEAT)
                except psycopg.Error as error:
                    self.errors.append(f"work {error.sqlstate} {error}")
                    return


@pytest.mark.contract("C-70")
def test_workers_and_producers_of_before_go_on_while_it_goes_up_and_down(frozen: clusters.Database) -> None:
    with psycopg.connect(frozen.dsn, autocommit=True) as owner:
        owner.execute(
            "insert into penstock.types (job_type, policy, stages, max_attempts, audited) "
            "values ('busy', '{}', '{run}', 3, true)"
        )
    with Busy(frozen) as busy:
        assert busy.some.wait(60)
        upgraded.upgrade(frozen.dsn)
        busy.some.clear()
        to_frozen(frozen.dsn)
        upgraded.upgrade(frozen.dsn)
    assert busy.errors == []
    assert sorted(busy.done) == list(range(busy.put)), "each once"
    ended = dict(asked(frozen.dsn, "select status, count(*) from penstock.jobs where job_type = 'busy' group by 1"))
    failed = len([n for n in range(busy.put) if n % 7 == 0])
    assert ended == {"completed": busy.put - failed, "failed": failed}
    letters = asked(frozen.dsn, "select count(*) from penstock.dead_letters where job_type = 'busy'")
    assert letters == [(failed,)]
    moves = asked(
        frozen.dsn,
        "select count(*) from penstock.job_events e join penstock.jobs j using (job_id) where j.job_type = 'busy'",
    )
    assert moves == [(3 * busy.put,)], "enqueued, claimed, ended: none unwritten"
