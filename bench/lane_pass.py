"""One pass of the batch lane in a process of its own: jobs out, answers back, and what that took.

`python -m bench.lane_pass '{"dsn": …, "emulator": …, "jobs": 10000}'` prints one line of JSON. The adapter is the real
`openai_responses` with its SDK. After the lane the same requests go through the adapter alone, so that the difference
is the engine's own. While the lane works, every file that Python opens for writing is noted (A-83).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from penstock import Penstock
from penstock.contract.calls import Answer, Request, Route
from penstock.contract.claims import Trigger
from penstock.contract.custom_ids import custom_id
from penstock.contract.keys import uuid7
from penstock.emulator import RemoteEmulator
from penstock.providers.port import BatchAdapter, Submission

TYPE: Final = "letters"
ASKED: Final = "the heron stands on one leg"  # in every request, and in the emulator's own answers
ANSWERED: Final = "A heron answers at length:"  # in every long answer
MOST_TOKENS: Final = 100_000
BATCH_SECONDS: Final = 3600.0
OUTPUTS: Final = "create table if not exists public.outputs (job_id uuid, text text)"
WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True, slots=True)
class Order:
    """What to do."""

    dsn: str
    emulator: str
    jobs: int = 10_000
    groups: int = 1  # batches: each group of jobs is one
    persists: bool = False  # the application stores each answer, in the transaction that ends its job
    alone: bool = True  # measure the adapter alone as well


@dataclass(slots=True)
class Passed:
    """What it took. Processor seconds of this process alone, all its threads."""

    jobs: int
    completed: int = 0
    batches: int = 0
    submit_cpu: float = 0.0
    collect_cpu: float = 0.0
    adapter_cpu: float = 0.0
    seconds: float = 0.0
    before_mb: float = 0.0
    peak_mb: float = 0.0
    written: list[str] = field(default_factory=list)  # files that were opened for writing
    temporary_touched: bool = False  # whether anything was ever made in the directory for temporary files


class Watch:
    """Notes files opened for writing, and whether the directory for temporary files has ever changed."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self._on = False
        self._folder = Path(tempfile.gettempdir())
        sys.addaudithook(self._hear)

    def __enter__(self) -> Self:
        os.utime(self._folder, (0, 0))  # whatever is made in it, or removed from it, moves this
        self._on = True
        return self

    def __exit__(self, *_: object) -> None:
        self._on = False

    @property
    def touched(self) -> bool:
        """Whether anything was made in the directory, also if it is gone again."""
        return bool(self._folder.stat().st_mtime_ns) or any(self._folder.iterdir())

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._on and event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITES and path != os.devnull:
                self.written.append(str(path))


async def run(order: Order) -> Passed:
    """The whole pass."""
    emulator = RemoteEmulator(order.emulator)
    app = _app(order, emulator)
    passed = Passed(order.jobs)
    async with app:
        await app.sync_types()
        await app.pool.execute(OUTPUTS)
        await app.enqueue_many(TYPE, [{"n": n} for n in range(order.jobs)])
        await _adapter_alone(app, emulator, order, jobs=1)  # the SDK is imported by now, and warm
        passed.before_mb = _peak_mb()
        with Watch() as watch:
            await _out_and_back(app, emulator, passed)
        passed.peak_mb, passed.written, passed.temporary_touched = _peak_mb(), watch.written, watch.touched
        passed.completed = await app.pool.fetchval("select count(*) from penstock.jobs where status = 'completed'")
        passed.batches = await app.pool.fetchval("select count(*) from penstock.batches where state = 'collected'")
        if order.alone:
            passed.adapter_cpu = await _adapter_alone(app, emulator, order, jobs=order.jobs)
    return passed


async def _out_and_back(app: Penstock, emulator: RemoteEmulator, passed: Passed) -> None:
    began, clock = time.monotonic(), time.process_time()
    await app.run_function(f"{TYPE}_batch_submitter", trigger=Trigger.SCHEDULE, insecure=True)
    passed.submit_cpu = time.process_time() - clock
    await asyncio.to_thread(emulator.advance, BATCH_SECONDS)
    clock = time.process_time()
    await app.run_function(f"{TYPE}_batch_collector", trigger=Trigger.SCHEDULE, insecure=True)
    passed.collect_cpu = time.process_time() - clock
    passed.seconds = time.monotonic() - began


async def _adapter_alone(app: Penstock, emulator: RemoteEmulator, order: Order, jobs: int) -> float:
    """The requests of *jobs* in as many batches through the same adapter, with nobody around it."""
    spent = 0.0
    for group in range(min(jobs, order.groups)):
        numbers = range(group, jobs, order.groups)
        clock = time.process_time()
        adapter, submission = _submission(app, emulator, order, numbers)
        created = await adapter.create(submission, await adapter.upload(submission))
        spent += time.process_time() - clock
        await asyncio.to_thread(emulator.advance, BATCH_SECONDS)
        clock = time.process_time()
        state = await adapter.poll(created.provider_batch_id)
        found = [result.custom_id async for result in adapter.results(state) if result.answer is not None]
        await adapter.discard(state)
        spent += time.process_time() - clock
        assert len(found) == len(numbers)  # noqa: S101 - or nothing was measured
    return spent


def _submission(
    app: Penstock, emulator: RemoteEmulator, order: Order, numbers: range
) -> tuple[BatchAdapter, Submission]:
    batch_id = uuid7()
    requests = [_request(emulator, order, n) for n in numbers]
    adapter: Any = app.adapters.get(requests[0].route)
    lines = [adapter.line(custom_id(batch_id, n, 1), request) for n, request in enumerate(requests)]
    return adapter, Submission(batch_id, requests[0].route.model, lines, datetime.now(UTC))


def _app(order: Order, emulator: RemoteEmulator) -> Penstock:
    def build(_job: Any, args: dict[str, Any]) -> Request:
        return _request(emulator, order, args["n"])

    app = Penstock(order.dsn, openai_api_key="any-key")
    span = timedelta(minutes=30)
    app.lane(
        TYPE,
        build=build,
        accept=_accept,
        persist=_persist if order.persists else None,
        drain_cap=order.jobs,
        max_runtime=span,
        lease=2 * span,
    )
    return app


def _request(emulator: RemoteEmulator, order: Order, number: int) -> Request:
    version = str(number % order.groups)
    route = Route("openai", "gpt-small", "openai_responses", emulator.openai_base_url, prompt_version=version)
    return Request(route, "Rewrite politely.", f"Number {number}: {ASKED}.", max_output_tokens=MOST_TOKENS)


def _accept(_job: Any, _args: Any, answer: Answer) -> str:
    return answer.text


async def _persist(job: Any, _args: Any, result: str, connection: Any) -> None:
    await connection.execute("insert into public.outputs (job_id, text) values ($1, $2)", job.job_id, result)


def _peak_mb() -> float:
    """The most memory this process has ever held."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(run(Order(**json.loads(sys.argv[1])))))))
