"""Procrastinate on psycopg, 30 jobs at a time: two passes could not tell 5, 30 and 60 apart."""

# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator,no-any-unimported"
# The peer may be missing or untyped where the types are checked.

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from procrastinate import App, PsycopgConnector

from bench.contestant import TYPE, Contestant, Duty, run

CONCURRENCY: Final = 30


class ProcrastinateClient:
    def __init__(self, task: Any) -> None:
        self._task = task

    async def one(self, number: int) -> None:
        await self._task.defer_async(n=number)

    wake = one

    async def many(self, numbers: Sequence[int], *, less_urgent: bool = False) -> None:
        task = self._task.configure(priority=-1 if less_urgent else 0)
        for start in range(0, len(numbers), 1_000):
            await task.batch_defer_async(*({"n": n} for n in numbers[start : start + 1_000]))


class Procrastinate(Contestant):
    name = "procrastinate"
    distribution = "procrastinate"
    share = 0.1
    pending = """select exists (select from procrastinate_jobs
        where status in ('todo', 'doing') and (scheduled_at is null or scheduled_at <= now()))"""

    async def setup(self, dsn: str) -> None:
        async with App(connector=PsycopgConnector(conninfo=dsn)).open_async() as app:
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncIterator[ProcrastinateClient]:
        app = App(connector=PsycopgConnector(conninfo=dsn, min_size=1))

        @app.task(name=TYPE)
        async def noop(n: int) -> None: ...

        async with app.open_async():
            yield ProcrastinateClient(noop)

    def work(self, duty: Duty) -> None:
        run(_work(duty))


async def _work(duty: Duty) -> None:
    app = App(connector=PsycopgConnector(conninfo=duty.dsn, max_size=CONCURRENCY))

    @app.task(name=TYPE)
    async def noop(n: int) -> None:
        duty.region.ran(n)

    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


contestant = Procrastinate()
