"""The act of the vault: a hundred items saved at once, one of two workers killed in the middle, nothing lost.

The worker that dies is a process of its own and dies by kill -9. What it held
waits for its lease, which the play lets pass; everything else is enriched at
once, and the time from save to enriched is the database's own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from penstock.contract.errors import PenstockError
from penstock.demo.stage import PATIENCE, TICK, Check, clean_environment
from penstock.store import clock, types
from penstock.store.roles import ORCHESTRATOR, WORKER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path
    from uuid import UUID

    from penstock.apps.vault import Vault
    from penstock.demo.stage import Stage
    from penstock.emulator import Emulator

ITEMS: Final = 100
VICTIM: Final = "short-lived"
SURVIVOR: Final = "steady"
PHASE: Final = 2  # of the roll-out: pokes, and a poll every two seconds beside them
THINKS: Final = 0.05  # seconds that the model takes
LEASE: Final = timedelta(minutes=5, seconds=5)
IN_TIME_MS: Final = 5000
KEY: Final = "a-key-for-the-emulator"
CANARY: Final = "the spare key is under the third stone"
APPLICATION: Final = "penstock.apps.vault:app"
LOOK: Final = 0.01
HELD: Final = "select count(*) from penstock.jobs where claimed_by = $1 and status = 'processing'"
LEFT: Final = (
    "select count(*) from penstock.jobs where job_type = 'enrichment' and status in ('queued', 'processing')"
    " and claimed_by is distinct from $1"
)
SAVED_TO_ENRICHED: Final = """
select count(*) as items, coalesce(max(ms), 0)::float8 as slowest,
       coalesce(percentile_cont(0.5) within group (order by ms), 0)::float8 as p50,
       coalesce(percentile_cont(0.95) within group (order by ms), 0)::float8 as p95
  from (select extract(epoch from updated_at - created_at) * 1000 as ms
          from vault.items where status = 'READY_TO_CONFIRM') as each
"""
ENDS: Final = """
select (select count(*) from vault.items where status = 'READY_TO_CONFIRM') as enriched,
       count(*) as jobs, count(*) filter (where status = 'completed') as completed,
       coalesce(sum(attempt_count), 0) as attempts,
       (select count(*) from penstock.job_events e join penstock.jobs j using (job_id)
         where j.job_type = 'enrichment' and e.to_status = 'completed') as completions
  from penstock.jobs where job_type = 'enrichment'
"""
WHERE_NO_TEXT_IS: Final = ("jobs", "job_stages", "job_events", "dead_letters", "effects", "runs")


async def vault(stage: Stage) -> list[Check]:
    """Save a hundred items at once, kill a worker, and show how soon the others were enriched."""
    stage.view.act("Act 7: a hundred items saved at once, and enriched a moment later")
    try:
        from penstock.apps.vault import application as _  # noqa: F401 - is it there?
        from penstock.emulator import Emulator
    except ModuleNotFoundError as missing:
        stage.view.say(f"left out: {missing.name} is missing; install penstock[emulator,openai]")
        return []
    faults = [{"kind": "delay", "provider": "openai", "seconds": THINKS}]
    with stage.logging():
        async with Emulator(script={"faults": faults}) as emulator:
            play = await _Play.prepare(stage, emulator)
            async with play.saving.app, play.working.app:
                with play.victim() as victim:
                    async with play.survivor():
                        return await play.perform(victim)


@dataclass
class _Play:
    """One performance of the act: the same application twice, once for each of its sides."""

    stage: Stage
    saving: Vault  # logged in as penstock_orchestrator
    working: Vault  # logged in as penstock_worker
    given: dict[str, Any]

    @classmethod
    async def prepare(cls, stage: Stage, emulator: Emulator) -> _Play:
        from penstock.apps.vault import vault_app

        given: dict[str, Any] = {
            "openai_api_key": KEY,
            "vault_model_url": emulator.openai_base_url,
            "vault_phase": PHASE,
        }
        saving, working = (vault_app(dsn=stage.server.url(user=role), **given) for role in (ORCHESTRATOR, WORKER))
        await types.sync(stage.owner, [job_type.policy for job_type in working.app.types])
        return cls(stage, saving, working, given)

    async def perform(self, victim: subprocess.Popen[bytes]) -> list[Check]:
        """The burst, the kill, the lease, and the table."""
        say = self.stage.view.say
        await self._until_listening(victim)
        killing = asyncio.create_task(self._kill(victim))
        person = uuid4()
        await asyncio.gather(*(self._save(person, number) for number in range(ITEMS)))
        held = await killing
        say(f"{ITEMS} items are saved, each with its job in one transaction; kill -9 took a worker with {held} of them")
        await self._until_none(LEFT, VICTIM)
        soon = await self.stage.owner.fetchrow(SAVED_TO_ENRICHED)
        assert soon is not None  # noqa: S101 - a row of counts is always there
        say(
            f"from save to enriched: p50 {soon['p50']:.0f} ms, p95 {soon['p95']:.0f} ms, for the {soon['items']} items "
            f"of the worker that lived, with a model that takes {THINKS * 1000:.0f} ms"
        )
        waiting = ITEMS - soon["items"]
        await clock.wind(self.stage.owner, LEASE)
        await self._until_none(HELD, VICTIM)
        await self._until_none(LEFT, VICTIM)
        say(f"five minutes later the lease of the dead worker is over, and its {waiting} items are enriched too")
        return await self._judge(dict(soon), waiting)

    # ----------------------------------------------------------------- workers

    @contextmanager
    def victim(self) -> Iterator[subprocess.Popen[bytes]]:
        """A worker in a process of its own; it is gone at the end, whatever happens."""
        command = [sys.executable, "-m", "penstock", "worker", APPLICATION, "--name", VICTIM, "--concurrency", "5"]
        environment = {f"PENSTOCK_{name.upper()}": str(value) for name, value in self.given.items()}
        environment["PENSTOCK_DSN"] = self.stage.server.url(user=WORKER)
        with self._victims_log.open("ab") as log:
            process = subprocess.Popen(
                [*command, "--log-format", "json"],
                env={**clean_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE)

    @asynccontextmanager
    async def survivor(self) -> AsyncIterator[None]:
        """A worker in this process."""
        worker = self.working.app.worker(dsn=self.stage.server.url(user=WORKER), name=SURVIVOR, concurrency=20)
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await running

    async def _until_listening(self, victim: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while b'"worker_started"' not in self._victims_log.read_bytes():
            if victim.poll() is not None or time.monotonic() > deadline:
                raise PenstockError(f"a worker did not start; play with --keep and look at {self._victims_log.name}")
            await asyncio.sleep(TICK)

    async def _kill(self, victim: subprocess.Popen[bytes]) -> int:
        """As soon as it holds something; returns how many items it held."""
        async with self.stage.logged_in(WORKER) as db:
            deadline = time.monotonic() + PATIENCE
            while not await db.fetchval(HELD, VICTIM):
                if time.monotonic() > deadline:
                    raise PenstockError("the worker that was to be killed took no item; play again")
                await asyncio.sleep(LOOK)
            os.kill(victim.pid, signal.SIGKILL)
            await asyncio.to_thread(victim.wait, PATIENCE)
            held: int = await db.fetchval(HELD, VICTIM)
            return held

    # ------------------------------------------------------------------ looking

    async def _save(self, person: UUID, number: int) -> None:
        text = f"Note {number} about the house: {CANARY}, says Ada Marlow."
        await self.saving.create_item(owner_id=person, content=text, kind="note")

    async def _until_none(self, query: str, *values: object) -> None:
        deadline = time.monotonic() + PATIENCE
        while await self.stage.owner.fetchval(query, *values):
            self.stage.view.progress({"enrichment": (await self.stage.counts())["enrichment"]}, ())
            if time.monotonic() > deadline:
                raise PenstockError(f"the items did not end; play with --keep and look at {self.stage.log.name}")
            await asyncio.sleep(LOOK)
        self.stage.view.still()

    async def _judge(self, soon: dict[str, Any], waiting: int) -> list[Check]:
        row = await self.stage.owner.fetchrow(ENDS)
        assert row is not None  # noqa: S101 - a row of counts is always there
        found = await self._texts()
        return [
            Check("every saved item is enriched", f"{row['enriched']} of {ITEMS}",
                  row["enriched"] == row["jobs"] == ITEMS),
            Check("none is enriched twice", f"{row['completions']} jobs ended, {row['completed']} different",
                  row["completions"] == row["completed"] == ITEMS),
            Check("within five seconds of being saved", f"p50 {soon['p50']:.0f} ms, p95 {soon['p95']:.0f} ms, "
                  f"slowest {soon['slowest']:.0f} ms", soon["slowest"] < IN_TIME_MS),
            Check("a killed worker costs its items a lease and no attempt",
                  f"{waiting} items waited, {row['attempts']} attempts spent", waiting > 0 and row["attempts"] == 0),
            Check("what was saved stands in no table of the engine and in no log", f"{found} found", found == 0),
        ]  # fmt: skip

    async def _texts(self) -> int:
        """How often what was saved stands where it must not."""
        found = sum(log.read_text().count(CANARY) for log in (self.stage.log, self._victims_log))
        for table in WHERE_NO_TEXT_IS:
            found += await self.stage.owner.fetchval(
                f"select count(*) from penstock.{table} as t where strpos(to_jsonb(t)::text, $1) > 0",  # noqa: S608 - our own words
                CANARY,
            )
        return found

    @property
    def _victims_log(self) -> Path:
        return self.stage.folder / "vault-worker.log"
