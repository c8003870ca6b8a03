"""A campaign: workers are killed at named points and at random, over and over, while jobs keep coming."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

import asyncpg

from penstock.contract.crash import CrashPoint
from tests.crash import handlers, history
from tests.support import forks

if TYPE_CHECKING:
    from collections.abc import Callable

    Process = subprocess.Popen[bytes] | forks.Child

ROOT: Final = Path(__file__).resolve().parents[2]
REAPER: Final = (CrashPoint.BEFORE_REAP, CrashPoint.AFTER_REAP)
POINTS: Final = (
    CrashPoint.BEFORE_CLAIM,
    CrashPoint.AFTER_CLAIM,
    CrashPoint.MID_HANDLER,
    CrashPoint.AFTER_HANDLER,
    CrashPoint.BEFORE_RECORD,
    CrashPoint.AFTER_RECORD,
    CrashPoint.BEFORE_EFFECT_INTENT,
    CrashPoint.AFTER_EFFECT_INTENT,
    CrashPoint.AFTER_EFFECT_PERFORMED,
    CrashPoint.AFTER_EFFECT_MARKED,
    CrashPoint.BEFORE_TRANSACTION_COMMIT,
    CrashPoint.AFTER_TRANSACTION_COMMIT,
    CrashPoint.AFTER_STAGE_SAVED,
    *REAPER,
)
# At which passage of its point a worker dies; a reaper passes its own about once a second
OFTEN: Final = (1, 1, 2, 5, 20)
RARE: Final = (1, 1, 2)
TYPES: Final = ("plain", "mail", "write", "flaky", "staged")
ANYWHERE: Final = "anywhere"  # where those have died whom no point has stopped
FADING: Final = 0.8  # what is left of a long life's length after the next one, which may have had nothing to do


class Nursery:
    """Processes forked by *module*: workers, unless it says otherwise."""

    def __init__(self, module: str = "tests.crash.nursery") -> None:
        self._module = module
        self._process: Process | None = None
        self._orders: asyncio.StreamWriter | None = None
        self._pids: asyncio.Queue[int] = asyncio.Queue()
        self.exits: dict[int, asyncio.Future[int]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._lifetime = 0.5  # seconds that one takes which nobody kills, by the longest of late

    async def __aenter__(self) -> Self:
        """Start the process that forks."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.to_thread(_started, self._module, theirs.fileno())
        said, self._orders = await asyncio.open_connection(sock=ours)
        self._reader = asyncio.create_task(self._read(said))
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it and all its children."""
        for pid, exited in self.exits.items():
            if not exited.done():
                kill(pid, signal.SIGKILL)
        await asyncio.gather(*self.exits.values())
        assert self._process is not None
        assert self._orders is not None
        self._orders.write_eof()
        await asyncio.to_thread(self._process.wait)
        if self._reader is not None:
            await self._reader
        self._orders.close()
        await self._orders.wait_closed()

    async def lived(self, order: dict[str, Any], share: float | None = None) -> int:
        """Fork one, kill it after a *share* of what a life takes if it is not over by then, and return how it ended.

        Seconds would come too late on one machine and before its first statement on another.
        """
        loop = asyncio.get_running_loop()
        pid, began = await self.spawn(**order), loop.time()
        timer = None if share is None else loop.call_later(share * self._lifetime, kill, pid, signal.SIGKILL)
        status = await self.exited(pid)
        if timer is not None:
            timer.cancel()
        if status == 0:
            self._lifetime = max(loop.time() - began, FADING * self._lifetime)
        return status

    async def spawn(self, **order: Any) -> int:
        """Fork one worker; returns its pid."""
        assert self._orders is not None
        self._orders.write((json.dumps({"spawn": order}) + "\n").encode())
        pid = await self._pids.get()
        if not pid:
            self._pids.put_nowait(0)
            raise RuntimeError(f"the nursery has ended; see what `python -m {self._module}` says")
        return pid

    async def exited(self, pid: int) -> int:
        """Wait for a death; returns the wait status."""
        return await self.exits[pid]

    async def _read(self, said: asyncio.StreamReader) -> None:
        async for line in said:
            message = json.loads(line)
            if "pid" in message:
                self.exits[message["pid"]] = asyncio.get_running_loop().create_future()
                self._pids.put_nowait(message["pid"])
            else:
                self.exits[message["exit"]].set_result(message["status"])
        self._pids.put_nowait(0)  # whoever waits for one waits in vain


def _started(module: str, speaks: int) -> Process:
    """`python -m` *module*, heard and told by one socket; forked itself where a run of tests has a server for that."""
    command = ["-m", module]
    if forks.known(os.environ):
        return forks.start(command, env=os.environ, stdin=speaks, stdout=speaks, stderr=subprocess.DEVNULL)
    return subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdin=speaks, stdout=speaks, stderr=subprocess.DEVNULL
    )


@dataclass
class Verdict:
    """What a campaign came to."""

    seed: int
    kills: int = 0
    jobs: int = 0
    at: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def at_points(self) -> int:
        """Those who were killed at a named point."""
        return self.kills - self.at[ANYWHERE]


async def run(
    dsn: str,
    world_path: Path,
    *,
    kills: int,
    seed: int,
    workers: int = 3,
    progress: Callable[[Verdict], None] = lambda _: None,
) -> Verdict:
    """Kill *kills* workers at named points, and some more anywhere, and check the history."""
    random = Random(seed)  # noqa: S311 - chaos that can be repeated
    verdict = Verdict(seed)
    app = handlers.build(dsn, str(world_path))
    owner = await asyncpg.connect(dsn)
    await owner.execute("create table if not exists public.writes (job_id uuid primary key, claim_seq bigint not null)")
    async with app, Nursery() as nursery:
        await app.sync_types()
        slots = [
            asyncio.create_task(_slot(nursery, random, verdict, f"slot-{n}", dsn, str(world_path), kills, progress))
            for n in range(workers)
        ]
        enough = asyncio.Event()
        feeder = asyncio.create_task(_feed(app, random, verdict, enough))
        await asyncio.gather(*slots)
        enough.set()  # a cancelled enqueue might have committed without being counted
        await feeder
        await _finish(nursery, owner, dsn, str(world_path))
        verdict.problems = await history.violations(owner, handlers.World(world_path), verdict.jobs)
    await owner.close()
    return verdict


async def _slot(
    nursery: Nursery,
    random: Random,
    verdict: Verdict,
    name: str,
    dsn: str,
    world: str,
    kills: int,
    progress: Callable[[Verdict], None],
) -> None:
    """Start a worker, see it die, start the next."""
    while verdict.at_points < kills:
        point = random.choice(POINTS) if random.random() < 0.85 else None
        order: dict[str, Any] = {"dsn": dsn, "world": world, "name": f"{name}-{random.randrange(10**9)}"}
        if point is not None:
            order |= {"crash_at": str(point), "passages": random.choice(RARE if point in REAPER else OFTEN)}
        pid = await nursery.spawn(**order)
        try:
            async with asyncio.timeout(random.uniform(0.1, 1.5) if point is None else 3):
                await asyncio.shield(nursery.exits[pid])
        except TimeoutError:
            kill(pid, signal.SIGKILL)
            point = None
        await nursery.exited(pid)
        verdict.kills += 1
        verdict.at[str(point or ANYWHERE)] += 1
        progress(verdict)


async def _feed(app: Any, random: Random, verdict: Verdict, enough: asyncio.Event) -> None:
    """Jobs keep coming as long as workers keep dying."""
    while not enough.is_set():
        job_type = random.choice(TYPES)
        count = random.choice((1, 1, 5, 20))
        fatal = job_type == "flaky" and random.random() < 0.2
        await app.enqueue_many(job_type, [{"n": n, "fatal": fatal} for n in range(count)])
        verdict.jobs += count
        await asyncio.sleep(random.uniform(0.01, 0.1))


async def _finish(nursery: Nursery, owner: asyncpg.Connection[Any], dsn: str, world: str) -> None:
    """Two workers that nobody kills do what is left."""
    pids = [await nursery.spawn(dsn=dsn, world=world, name=f"last-{n}") for n in range(2)]
    async with asyncio.timeout(120):
        while await owner.fetchval("select exists (select from penstock.jobs where finished_at is null)"):
            await owner.execute("select pg_sleep(0.05)")
    for pid in pids:
        kill(pid, signal.SIGTERM)
        await nursery.exited(pid)


def kill(pid: int, how: signal.Signals) -> None:
    """Signal a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, how)
