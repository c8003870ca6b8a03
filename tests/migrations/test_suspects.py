"""The version that knows suspects: jobs that wait when it comes or goes, and workers of the version before it."""

from typing import Any
from uuid import uuid4

import psycopg
from psycopg.rows import dict_row

from penstock.store import migrate
from tests.migrations.catalogs import catalog
from tests.support import clusters

TYPE = "insert into penstock.types (job_type, policy, stages, max_attempts) values ('t', '{}', '{run}', 3)"
EXPIRE = (
    "update penstock.jobs set status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'w', ready = true, "
    "claimed_at = penstock.now(), lease_expires_at = penstock.now() - interval '1 second' where job_id = %s"
)
# What workers of the version before ask, word for word where it speaks of what has changed.
PROMOTE = """
update penstock.jobs as job
   set ready = true, updated_at = (select penstock.now())
 where job.job_id = any(array(
       select due.job_id
         from unnest($1::text[]) as type(job_type)
        cross join lateral (
              select j.job_id from penstock.jobs as j
               where j.job_type = type.job_type and j.status = 'queued' and not j.ready
                 and j.run_at <= penstock.now()
               order by j.run_at
               limit $2
                 for update skip locked) as due))
   and job.status = 'queued'
"""
GATED = "select job.job_id, job.claim_seq, job.payload from penstock.claim_gated($1, $2, $3, $4, $5) as job"
REAP = "select reaped.job_id, reaped.job_type, reaped.outcome from penstock.reap($1) as reaped"


class Owner:
    """A session whose statements are prepared before the schema changes under them."""

    def __init__(self, dsn: str) -> None:
        self.db = psycopg.connect(dsn, autocommit=True, row_factory=dict_row)

    def prepare(self) -> None:
        for name, statement in (("promote", PROMOTE), ("gated", GATED), ("reap", REAP)):
            self.db.execute(f"prepare {name} as {statement}".encode())

    def rows(self, query: str, *arguments: Any) -> list[dict[str, Any]]:
        cursor = psycopg.ClientCursor[dict[str, Any]](self.db, row_factory=dict_row)
        cursor.execute(query.encode(), arguments)
        return cursor.fetchall() if cursor.description else []

    def expired(self) -> Any:
        """A job whose worker has ended."""
        [row] = self.rows("select penstock.enqueue('t', '{}') as job_id")
        self.rows(EXPIRE, row["job_id"])
        return row["job_id"]

    def job(self, job_id: Any) -> dict[str, Any]:
        return self.rows("select * from penstock.jobs where job_id = %s", job_id)[0]


def test_workers_of_the_version_before_go_on_with_their_statements(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn, "0002")
    owner = Owner(empty.dsn)
    owner.rows(TYPE)
    owner.prepare()
    before = owner.expired()
    assert [row["outcome"] for row in owner.rows("execute reap(10)")] == ["queued"]
    assert owner.job(before)["ready"]

    migrate.upgrade(empty.dsn, "0003")

    assert (owner.job(before)["ready"], owner.job(before)["suspect"]) == (True, False), "what waits goes on"
    after = owner.expired()
    assert [row["outcome"] for row in owner.rows("execute reap(10)")] == ["queued"]
    assert owner.job(after)["suspect"]
    owner.rows("execute promote(%s, 10)", ["t"])
    assert owner.job(after)["ready"], "to such a worker it is a job that has fallen due"
    owner.rows("update penstock.types set max_running = 5")
    taken = owner.rows("execute gated('t', 'w', interval '5 minutes', 10, %s)", uuid4())
    assert {row["job_id"] for row in taken} == {before, after}
    owner.db.close()


def test_the_way_back_keeps_suspects_as_jobs_and_leaves_the_schema_as_it_was(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn, "0002")
    first = catalog(empty.dsn)
    migrate.upgrade(empty.dsn, "0003")
    owner = Owner(empty.dsn)
    owner.rows(TYPE)
    job_id = owner.expired()
    owner.rows("select * from penstock.reap(10)")
    assert not owner.job(job_id)["ready"]

    migrate.downgrade(empty.dsn, "0002")

    assert catalog(empty.dsn) == first
    owner.prepare()
    owner.rows("execute promote(%s, 10)", ["t"])
    assert owner.job(job_id)["ready"]
    owner.db.close()
