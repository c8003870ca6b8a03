"""`python -m tests.crash.takeover --rows 100000`: an outbox is taken over and given back while everybody works on it.

Pollers and producers of before, a poller of 004 and workers of the engine run
all the time; some are killed. The outbox goes up, down and up; then what is
open is done, and it goes down once more. Every row must be somewhere, once,
and every item enriched, once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

import asyncpg
import psycopg

from penstock.apps.vault.migrations import LINE
from penstock.store import migrate
from tests.crash import takeover_history as history
from tests.crash.campaign import Nursery, kill
from tests.support import servers

if TYPE_CHECKING:
    from collections.abc import Callable

CREW: Final = ("before", "before", "004", "engine", "engine", "producer")
MORTAL: Final = ("before", "004", "engine")
LOCK_TIMEOUT: Final = 60.0
PATIENCE: Final = 300.0
LOOK_EVERY: Final = 0.005


@dataclass
class Way:
    """One migration: how long it took, and how long the longest wait of everybody else was."""

    name: str
    seconds: float
    waited: float


@dataclass
class Verdict:
    """What a campaign came to."""

    rows: int
    came: int = 0
    kills: int = 0
    quarantined: int = 0
    lost: int = 0
    doubled: int = 0
    ways: list[Way] = field(default_factory=list)
    made_by: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Looker:
    """Asks the outbox for a row again and again, and remembers its longest wait."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn, self._schema, self.longest = dsn, schema, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as db:
            while not self._over.wait(LOOK_EVERY):
                began = time.monotonic()
                db.execute(f"select id from {self._schema}.enrichment_outbox limit 1")
                self.longest = max(self.longest, time.monotonic() - began)


@dataclass
class Campaign:
    """One campaign under way."""

    dsn: str
    owner: asyncpg.Connection[Any]
    nursery: Nursery
    log: Path
    verdict: Verdict
    random: Random
    schema: str = "vault"
    living: dict[int, str] = field(default_factory=dict)
    born: int = 0

    async def spawn(self, kind: str) -> None:
        """One more process."""
        self.born += 1
        order = {
            "dsn": self.dsn,
            "kind": kind,
            "name": f"{kind}-{self.born}",
            "log": str(self.log),
            "schema": self.schema,
        }
        self.living[await self.nursery.spawn(**order)] = kind

    async def kill_one(self, kind: str) -> None:
        """Somebody dies at work, and another takes the place."""
        pid = self.random.choice([pid for pid, what in self.living.items() if what == kind])
        kill(pid, signal.SIGKILL)
        del self.living[pid]
        await self.nursery.exited(pid)
        self.verdict.kills += 1
        await self.spawn(kind)

    async def stop(self, *kinds: str) -> None:
        """These finish what they have and go."""
        leaving = [pid for pid, kind in self.living.items() if kind in kinds]
        for pid in leaving:
            kill(pid, signal.SIGTERM)
            status = await self.nursery.exited(pid)
            if status:
                self.verdict.problems.append(f"{self.living[pid]} ended with {os.waitstatus_to_exitcode(status)}")
            del self.living[pid]

    async def go(self, way: str) -> None:
        """Migrate, with somebody who looks how long the others wait."""
        with Looker(self.dsn, self.schema) as looker:
            began = time.monotonic()
            if way == "up":
                await asyncio.to_thread(migrate.upgrade, self.dsn, to=[LINE], lock_timeout=LOCK_TIMEOUT)
            else:
                await asyncio.to_thread(migrate.downgrade, self.dsn, "0001", of=[LINE], lock_timeout=LOCK_TIMEOUT)
            seconds = time.monotonic() - began
        self.verdict.ways.append(Way(way, seconds, looker.longest))

    async def until(self, question: str, *, more_than: int = 0) -> None:
        """Wait until the count is more than so many."""
        deadline = time.monotonic() + PATIENCE
        while int(await self.owner.fetchval(question)) <= more_than:
            if time.monotonic() > deadline:
                self.verdict.problems.append(f"never more than {more_than}: {question}")
                return
            await asyncio.sleep(LOOK_EVERY)

    async def effects(self, more: int) -> None:
        """Let everybody get so much done."""
        done = int(await self.owner.fetchval("select count(*) from public.effects"))
        await self.until("select count(*) from public.effects", more_than=done + more - 1)


async def run(
    dsn: str, log: Path, *, rows: int, seed: int, between: int = 50, say: Callable[[str], None] = lambda _: None
) -> Verdict:
    """Take *rows* up, down, up and down; *between*, so many items are enriched each time."""
    verdict = Verdict(rows)
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(Nursery("tests.crash.takeover_nursery"))
        owner = await asyncpg.connect(dsn)
        stack.push_async_callback(owner.close)
        random = Random(seed)  # noqa: S311 - a campaign that can be repeated
        campaign = Campaign(dsn, owner, nursery, log, verdict, random)
        await history.fill(owner, rows)
        say(f"{rows} rows are in the outbox")
        await _work(campaign, between, say)
        verdict.problems += _errors(log)
    return verdict


async def _work(campaign: Campaign, between: int, say: Callable[[str], None]) -> None:
    for kind in CREW:
        await campaign.spawn(kind)
    await campaign.effects(between)
    for way in ("up", "down", "up"):
        await campaign.go(way)
        say(f"{way}: {campaign.verdict.ways[-1].seconds:.1f} s")
        for kind in MORTAL:
            await campaign.kill_one(kind)
        await campaign.effects(between)
    await campaign.stop("producer")
    await _finish(campaign)
    say("everything is done")
    await history.check_jobs(campaign.owner, campaign.verdict)
    await campaign.go("down")
    await history.check_table(campaign.owner, campaign.verdict)
    await campaign.stop(*MORTAL)


async def _finish(campaign: Campaign) -> None:
    """Everything comes to its end; what the dead held is given free before its time: the living need no second."""
    deadline = time.monotonic() + PATIENCE
    while await campaign.owner.fetchval("select exists (select from penstock.jobs where finished_at is null)"):
        if time.monotonic() > deadline:
            campaign.verdict.problems.append("not everything has ended")
            return
        await campaign.owner.execute(
            "update penstock.jobs set lease_expires_at = now() - interval '1 second' where status = 'processing' "
            "and claimed_at < now() - interval '2 seconds'"
        )
        await asyncio.sleep(LOOK_EVERY * 20)


def _errors(log: Path) -> list[str]:
    """What the processes met and should not have."""
    with suppress(FileNotFoundError):
        return [f"{line['kind']}: {line['error']}" for line in map(json.loads, log.read_text().splitlines())]
    return []


def main() -> int:
    """Run it at length; 0 when everything holds, 1 when it does not."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.takeover", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with servers.campaign_server() as server, tempfile.TemporaryDirectory() as folder:
        migrate.downgrade(server.dsn, "0001", of=[LINE])
        log = Path(folder) / "errors.log"
        verdict = asyncio.run(run(server.dsn, log, rows=options.rows, seed=options.seed, between=500, say=_print))
    _tell(verdict)
    return 1 if verdict.problems or verdict.lost or verdict.doubled else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _tell(verdict: Verdict) -> None:
    done = ", ".join(f"{count} by {who}" for who, count in sorted(verdict.made_by.items()))
    _print(
        f"{verdict.rows} rows, {verdict.came} that came meanwhile, {verdict.kills} processes killed; enriched: {done}"
    )
    for way in verdict.ways:
        _print(
            f"  {way.name:<4} {way.seconds:6.2f} s; the longest that anybody waited for the lock {way.waited:6.2f} s"
        )
    for problem in verdict.problems[:50]:
        _print(f"  BROKEN: {problem}")
    _print(f"lost {verdict.lost}, doubled {verdict.doubled}, in quarantine {verdict.quarantined}")


if __name__ == "__main__":
    sys.exit(main())
