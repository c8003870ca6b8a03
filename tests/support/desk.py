"""The owner's desk: a synchronous look at one database, beside the processes that work on it."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from penstock.engine import births
from penstock.store.roles import WORKER
from tests.support.processes import SAMPLE, WorkerProcess

PATIENCE = 30.0


@dataclass
class Desk:
    """Puts jobs in, looks at rows, winds the clock, starts worker processes."""

    dsn: str
    worker_dsn: str
    owner: psycopg.Connection[dict[str, Any]]
    workers: list[WorkerProcess] = field(default_factory=list)

    def worker(self, *options: str, dsn: str | None = None, **more: Any) -> WorkerProcess:
        """A worker process on this database, cleared away after the test."""
        started = WorkerProcess(dsn or self.worker_dsn, *options, **more)
        self.workers.append(started)
        return started

    def sync_types(self) -> None:
        """Let the database know the types of the sample application."""
        from penstock.contract.policies import Policy  # the sample itself would read the environment

        for name in ("noop", "held", "doomed", "refused"):
            columns = {"job_type": name, "policy": json.dumps(Policy(name).to_json()), "max_attempts": 5}
            self.owner.execute(
                "insert into penstock.types (job_type, policy, stages, max_attempts) "
                "values (%(job_type)s, %(policy)s, '{run}', %(max_attempts)s) on conflict do nothing",
                columns,
            )

    def put(self, job_type: str, payload: dict[str, Any] | None = None, **options: Any) -> UUID:
        """Enqueue one job as a SQL caller does."""
        named = "".join(f", {name} => %({name})s" for name in options)
        row = self.owner.execute(
            f"select penstock.enqueue(%(job_type)s, %(payload)s::jsonb{named}) as job_id",
            {"job_type": job_type, "payload": json.dumps(payload or {}), **options},
        ).fetchone()
        assert row is not None
        found: UUID = row["job_id"]
        return found

    def claim(self, job_id: UUID) -> None:
        """Move a queued job on by hand, as a worker that is not there."""
        self.owner.execute(
            "update penstock.jobs set status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'by hand', "
            "claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '1 hour' where job_id = %s",
            (job_id,),
        )

    def complete(self, job_id: UUID) -> None:
        """The same, to its end."""
        self.claim(job_id)
        self.owner.execute(
            "update penstock.jobs set status = 'completed', lease_expires_at = null, finished_at = penstock.now() "
            "where job_id = %s",
            (job_id,),
        )

    def fail(self, job_type: str, error_class: str = "SCHEMA_INVALID") -> tuple[UUID, UUID]:
        """A job that has failed for good, and its dead letter."""
        job_id = self.put(job_type, {"text": "private words"})
        self.claim(job_id)
        self.owner.execute(
            "update penstock.jobs set status = 'failed', lease_expires_at = null, finished_at = penstock.now(), "
            "last_error_code = %s, last_error_at = penstock.now() where job_id = %s",
            (error_class, job_id),
        )
        self.owner.execute(
            "select penstock.bury(%s, null, %s, 'run', %s, false, 'non_retryable', 'the stack', "
            '\'{"stage": "run"}\', 1, null, null)',
            (job_id, job_type, error_class),
        )
        letter = self.row("select dead_letter_id from penstock.dead_letters where job_id = %s", job_id)
        return job_id, letter["dead_letter_id"]

    def name_taken(self, name: str, *, seconds_ago: float = 0, process: str | None = None, login: str = WORKER) -> None:
        """The row of a worker of this name, in this very process, that last spoke so long ago."""
        self.owner.execute(
            "insert into penstock.workers (worker_id, instance, host, pid, version, types, concurrency, started_at, "
            "heartbeat_at, process, db_user) values (%s, gen_random_uuid(), 'host', %s, '0', '{}', 1, penstock.now(), "
            "penstock.now() - make_interval(secs => %s), %s, %s)",
            (name, os.getpid(), seconds_ago, process or births.birth(), login),
        )

    def row(self, query: str, *arguments: Any) -> dict[str, Any]:
        found = self.owner.execute(query, arguments).fetchone()
        assert found is not None
        return found

    def job(self, job_id: UUID) -> dict[str, Any]:
        return self.row("select * from penstock.jobs where job_id = %s", job_id)

    def status(self, job_id: UUID) -> str:
        return str(self.job(job_id)["status"])

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until *condition* holds; the server does the waiting between looks."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it did not come about"
            self.owner.execute("select pg_sleep(0.01)")

    def pass_time(self, **span: float) -> None:
        self.owner.execute(
            "insert into penstock.clock as clock (shift) values (%s) "
            "on conflict (only_row) do update set shift = clock.shift + excluded.shift",
            (timedelta(**span),),
        )

    def clear_away(self) -> None:
        for worker in self.workers:
            worker.clear_away()
        self.owner.close()


def open_desk(dsn: str, worker_dsn: str) -> Desk:
    """A desk whose every statement commits."""
    return Desk(dsn, worker_dsn, psycopg.connect(dsn, autocommit=True, row_factory=dict_row))


__all__ = ["SAMPLE", "Desk", "open_desk"]
