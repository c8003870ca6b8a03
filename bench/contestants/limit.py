"""The limit: what a hand-written asyncpg loop does on Penstock's own table, with nothing around it.

Sets of 500, updated in place, found by `id = any(array(select ... for update skip locked))`. No fence,
no heartbeat, no retry, no metric: what an engine adds is measured against this.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from bench.contestant import TYPE, Contestant, Duty, run
from bench.contestants import table

SET: Final = 500
POLL: Final = 5.0
CHANNEL: Final = "bench_limit"

_COLUMNS: Final = "(job_id, created_at, updated_at, run_at, max_attempts, ready, job_type, stage, priority, payload)"
INSERT: Final = f"""
insert into penstock.jobs {_COLUMNS}
values (penstock.uuid7(), now(), now(), now(), 5, true, '{TYPE}', 'run', 0, $1)
"""
INSERT_AND_NOTIFY: Final = f"with job as ({INSERT} returning 1) select pg_notify('{CHANNEL}', '') from job"
INSERT_MANY: Final = f"""
insert into penstock.jobs {_COLUMNS}
select penstock.uuid7(), now(), now(), now(), 5, true, '{TYPE}', 'run', $2, payload
  from unnest($1::jsonb[]) as payload
"""
CLAIM: Final = f"""
update penstock.jobs
   set status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'limit', claimed_at = now(),
       lease_expires_at = now() + interval '5 minutes', updated_at = now()
 where job_id = any(array(
       select job_id from penstock.jobs
        where job_type = '{TYPE}' and status = 'queued' and ready
        order by priority, created_at, job_id
        limit {SET} for update skip locked))
returning job_id, payload
"""
COMPLETE: Final = """
update penstock.jobs
   set status = 'completed', finished_at = now(), lease_expires_at = null, updated_at = now()
 where job_id = any($1) and status = 'processing'
"""


class LimitClient:
    """Bare statements."""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self._connection = connection

    async def one(self, number: int) -> None:
        await self._connection.execute(INSERT, json.dumps({"n": number}))

    async def wake(self, number: int) -> None:
        await self._connection.execute(INSERT_AND_NOTIFY, json.dumps({"n": number}))

    async def many(self, numbers: Sequence[int], *, less_urgent: bool = False) -> None:
        for start in range(0, len(numbers), 10_000):
            payloads = [json.dumps({"n": n}) for n in numbers[start : start + 10_000]]
            await self._connection.execute(INSERT_MANY, payloads, 10 if less_urgent else 0)


class Limit(Contestant):
    name = "limit"
    distribution = "asyncpg"
    share = 3.0
    schema_of = "penstock"
    pending = table.PENDING

    async def setup(self, dsn: str) -> None:
        await table.make(dsn)

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncIterator[LimitClient]:
        connection = await asyncpg.connect(dsn)
        try:
            yield LimitClient(connection)
        finally:
            await connection.close()

    def work(self, duty: Duty) -> None:
        run(_work(duty))

    async def preload(self, dsn: str, *, finished: int, future: int) -> None:
        await table.fill(dsn, finished, status="completed")
        await table.fill(dsn, future, status="queued", future=True)

    async def preload_others(self, dsn: str, jobs: int) -> None:
        await table.fill(dsn, jobs, status="queued", job_type="elsewhere", priority=-10)


async def _noop(number: int, duty: Duty) -> None:
    duty.region.ran(number)


async def _work(duty: Duty) -> None:
    connection = await asyncpg.connect(duty.dsn)
    listener = await asyncpg.connect(duty.dsn)
    poked = asyncio.Event()
    await listener.add_listener(CHANNEL, lambda *_: poked.set())
    while True:
        poked.clear()
        rows = await connection.fetch(CLAIM)
        for row in rows:
            await _noop(json.loads(row["payload"])["n"], duty)
        if rows:
            await connection.execute(COMPLETE, [row["job_id"] for row in rows])
        if len(rows) < SET:
            await _poke_or_poll(poked)


async def _poke_or_poll(poked: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(POLL):
            await poked.wait()
    except TimeoutError:
        return


contestant = Limit()
