"""PgQueuer on asyncpg.

Sets of 500, 1,000 and 2,000 were tried, four passes each: noise hid any difference with one process,
and with two 1,000 had the best median. It is taken, as the choice in the peer's favour.
"""

# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator,no-any-unimported"
# The peer may be missing or untyped where the types are checked.

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import asyncpg
from pgqueuer import PgQueuer as Engine
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.contestant import TYPE, Contestant, Duty, run

BATCH: Final = 1_000


class PgQueuerClient:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def one(self, number: int) -> None:
        await self._queries.enqueue(TYPE, str(number).encode())

    wake = one

    async def many(self, numbers: Sequence[int], *, less_urgent: bool = False) -> None:
        priority = 0 if less_urgent else 5  # the highest number goes first here
        for start in range(0, len(numbers), 10_000):
            part = numbers[start : start + 10_000]
            payloads: list[bytes | None] = [str(n).encode() for n in part]
            await self._queries.enqueue([TYPE] * len(part), payloads, [priority] * len(part))


class PgQueuer(Contestant):
    name = "pgqueuer"
    distribution = "pgqueuer"
    share = 3.0
    growth_share = 0.25
    pending = """select exists (select from pgqueuer
        where status in ('queued', 'picked') and execute_after <= now() and entrypoint = 'noop')"""

    async def setup(self, dsn: str) -> None:
        connection = await asyncpg.connect(dsn)
        await Queries.from_asyncpg_connection(connection).install()
        await connection.close()

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncIterator[PgQueuerClient]:
        connection = await asyncpg.connect(dsn)
        try:
            yield PgQueuerClient(Queries.from_asyncpg_connection(connection))
        finally:
            await connection.close()

    def work(self, duty: Duty) -> None:
        run(_work(duty))

    async def preload(self, dsn: str, *, finished: int, future: int) -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(
            "insert into pgqueuer_log (created, job_id, status, priority, entrypoint)"
            " select now(), i, 'successful', 5, 'noop' from generate_series(1, $1::bigint) as i",
            finished,
        )
        await connection.execute(
            "insert into pgqueuer (priority, created, updated, heartbeat, execute_after, status, entrypoint, payload)"
            " select 5, now(), now(), now(), now() + interval '30 days', 'queued', 'noop', '0'"
            "   from generate_series(1, $1::bigint)",
            future,
        )
        await connection.close()

    async def preload_others(self, dsn: str, jobs: int) -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(
            "insert into pgqueuer (priority, created, updated, heartbeat, execute_after, status, entrypoint, payload)"
            " select 50, now(), now(), now(), now(), 'queued', 'elsewhere', '0' from generate_series(1, $1::bigint)",
            jobs,
        )
        await connection.close()


async def _work(duty: Duty) -> None:
    engine = Engine.from_asyncpg_connection(await asyncpg.connect(duty.dsn))

    @engine.entrypoint(TYPE)
    async def noop(job: Job) -> None:
        duty.region.ran(int(job.payload or b"0"))

    await engine.run(batch_size=BATCH)


contestant = PgQueuer()
