"""Oban for Python. Of the local limits 50, 100 and 500, 500 was fastest with one process in both of two passes."""

# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator,no-any-unimported"
# The peer may be missing or untyped where the types are checked.

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
from oban import Oban as Engine
from oban import worker
from oban.schema import install
from psycopg.types.json import set_json_dumps, set_json_loads

from bench.board import Region
from bench.contestant import Contestant, Duty, run

LIMIT: Final = 500
_region: list[Region] = []


class Noop:
    async def process(self, job: Any) -> None:
        _region[0].ran(job.args["n"])


_noop: Final[Any] = worker(queue="default")(Noop)  # the decorator adds `new`, which no type checker sees


class ObanClient:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def one(self, number: int) -> None:
        await self._engine.enqueue(_noop.new({"n": number}))

    wake = one

    async def many(self, numbers: Sequence[int], *, less_urgent: bool = False) -> None:
        for start in range(0, len(numbers), 1_000):
            part = numbers[start : start + 1_000]
            await self._engine.enqueue_many(_noop.new({"n": n}) for n in part)


class Oban(Contestant):
    name = "oban"
    distribution = "oban"
    share = 0.25
    pending = "select exists (select from oban_jobs where state in ('available', 'executing', 'retryable'))"

    async def setup(self, dsn: str) -> None:
        pool = await Engine.create_pool(dsn)
        await install(pool)
        await pool.close()

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncIterator[ObanClient]:
        pool = await Engine.create_pool(dsn)
        async with Engine(pool=pool) as engine:
            yield ObanClient(engine)
        await pool.close()

    def work(self, duty: Duty) -> None:
        _region.append(duty.region)
        set_json_dumps(orjson.dumps)  # as its own command line does
        set_json_loads(orjson.loads)
        run(_work(duty))


async def _work(duty: Duty) -> None:
    pool = await Engine.create_pool(duty.dsn)
    async with Engine(pool=pool, queues={"default": LIMIT}):
        await asyncio.Event().wait()


contestant = Oban()
