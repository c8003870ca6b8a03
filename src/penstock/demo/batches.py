"""The act of the batch lane: a day of provider batches in seconds, and everything goes wrong once.

The clocks of the database and of the emulated providers are wound forward
together, so that nobody has to wait for half a day.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.claims import Trigger
from penstock.contract.crash import CrashPoint
from penstock.contract.errors import PenstockError
from penstock.demo import bill
from penstock.demo.stage import TICK, Check
from penstock.demo.tickets import REFUSED, text_of
from penstock.store import clock, types
from penstock.store.roles import ORCHESTRATOR, WORKER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.demo.desk import Ticket
    from penstock.demo.stage import Stage
    from penstock.emulator import Emulator
    from penstock.engine.app import Penstock

EACH: Final = 80  # tickets of each language at OpenAI
OTHERS: Final = {"gemini": 12, "anthropic": 8}
URGENT: Final = 6
LATE: Final = 60  # tickets that come when the first batches are out
DONE_IN_TIME: Final = 50  # of the batch that expires
HOURS: Final = 6.0  # that a batch takes
TOTAL: Final = 3 * EACH + sum(OTHERS.values()) + URGENT + LATE

TABLES: Final = f"""
create schema desk;
create table desk.replies (ticket_id integer not null, mood text not null,
                           reply text not null);  -- no unique key here either
grant usage on schema desk to {WORKER};
grant insert on desk.replies to {WORKER};
"""
APPLICATION: Final = "penstock.demo.desk:app"
SUBMITTER: Final = "answer_batch_submitter"
COLLECTOR: Final = "answer_batch_collector"
FAULTS: Final[list[dict[str, Any]]] = [
    {"kind": "drop_after", "provider": "openai", "method": "POST", "path": "/batches$", "nth": 1},
    {"kind": "expire", "provider": "openai", "text": "in German", "times": 1, "done": DONE_IN_TIME},
    {"kind": "refusal", "provider": "openai", "text": f"#{REFUSED}:"},
]


async def batches(stage: Stage) -> list[Check]:
    """Out and back: a lost reply, a killed submitter, a batch that expires, a question that is refused."""
    stage.view.act("Act 4: provider batches, with everything going wrong once")
    try:
        from penstock.demo import desk
        from penstock.emulator import Emulator
    except ModuleNotFoundError as missing:
        stage.view.say(f"left out: {missing.name} is missing; install penstock[emulator,openai,gemini,anthropic]")
        return []
    await stage.owner.execute(TABLES)
    await types.sync(stage.owner, [job_type.policy for job_type in desk.app.types])
    desk.app.use_dsn(stage.server.url(user=ORCHESTRATOR))
    emulator = Emulator(finish_after=HOURS * 3600, frozen=True, script={"faults": FAULTS})
    with stage.logging():
        async with emulator, desk.app:
            play = _Desk(stage, desk.app, emulator)
            checks = [*await play.send(), *await play.lose_a_submitter(), *await play.bring_home()]
            return checks + await bill.settle(stage, play.seen, TOTAL)


@dataclass
class _Desk:
    """One performance of the act."""

    stage: Stage
    app: Penstock
    emulator: Emulator
    arrived: int = 0
    seen: dict[str, str] = field(default_factory=dict)  # every batch that a provider ever had, and whose it was

    async def send(self) -> list[Check]:
        """The first run: five batches and a few urgent calls; the reply to the first create is lost."""
        say = self.stage.view.say
        tickets = [t for language in ("en-US", "de-DE", "es-ES") for t in self._tickets(EACH, language=language)]
        for provider, amount in OTHERS.items():
            tickets += self._tickets(amount, provider)
        tickets += self._tickets(URGENT, urgent=True)
        await self._enqueue(tickets)
        say(f"{len(tickets)} tickets wait; OpenAI, Gemini and Anthropic are emulated on loopback, their SDKs are real")
        await self._run(SUBMITTER)
        doubted = await self._count("penstock.batches", "state = 'uncertain'")
        at_work = await self._count("penstock.jobs", "status = 'batch_submitted'")
        say(f"{at_work} are at their providers, {URGENT} urgent ones were asked at once with the same code")
        say(f"the reply to one create was lost: {doubted} batch in doubt, and nobody sends it again")
        return [
            Check("a create whose reply is lost is in doubt, not failed", f"{doubted} batch in doubt", doubted == 1)
        ]

    async def lose_a_submitter(self) -> list[Check]:
        """The next submitter settles the doubt, sends more, and is killed right after its create."""
        say = self.stage.view.say
        await self._enqueue(self._tickets(LATE))
        code = await self._killed_submitter()
        settled = await self._count("penstock.batches", "state = 'uncertain'") == 0
        held = await self._count("penstock.effects", "state = 'intended' and kind = 'batch_submission'")
        say("the next submitter asked the provider for the token and found the batch")
        say(f"[bold red]kill -9[/bold red]: it had just created a batch of {held}, and had not written that down")
        before = len(self.emulator.batches)
        await self._pass(hours=0.3)
        await self._run(SUBMITTER)
        again = len(self.emulator.batches) - before
        say(f"18 minutes later another one asked, found that batch too, and sent {again or 'nothing'} again")
        charged = await self._count("penstock.jobs", "job_type = 'answer' and attempt_count > 0")
        waiting = await self._count("penstock.jobs", "status = 'batch_submitted'")
        return [
            Check("a submitter was killed between create and mark", f"signal {-code}, {held} jobs in its hands",
                  code == -signal.SIGKILL and held == LATE),
            Check("both doubts were settled by asking", f"{waiting} jobs wait at providers, {charged} charged",
                  settled and waiting == TOTAL - URGENT and again == charged == 0),
        ]  # fmt: skip

    async def bring_home(self) -> list[Check]:
        """The batches end, one of them too early; what it left is sent again."""
        say = self.stage.view.say
        await self._pass(hours=HOURS + 1)
        say(f"{HOURS:.0f} hours later, by the wound clocks, the batches are over")
        await self._run(COLLECTOR)
        expired = await self._count("penstock.batch_items", "state = 'retried' and code = 'BATCH_EXPIRED'")
        refused = await self._count("penstock.dead_letters", "job_type = 'answer' and error_class = 'POLICY_REJECTED'")
        say(f"one batch expired: {DONE_IN_TIME} of its answers were taken, {expired} jobs try again")
        say(f"{refused} question was refused by the model's policy: a dead letter, and its neighbours are untouched")
        await self._pass(hours=0.3)
        await self._run(SUBMITTER)
        await self._pass(hours=HOURS + 1)
        await self._run(COLLECTOR)
        left = await self._count("penstock.jobs", "job_type = 'answer' and status not in ('completed', 'failed')")
        return [
            Check("what a batch did not do in time was sent again", f"{expired} tried again, {left} left over",
                  expired == EACH - DONE_IN_TIME and left == 0),
            Check("a refused question fails alone", f"{refused} dead letter", refused == 1),
        ]  # fmt: skip

    def _tickets(
        self, amount: int, provider: str = "openai", *, language: str = "en-US", urgent: bool = False
    ) -> list[Ticket]:
        from penstock.demo.desk import Ticket

        address: str = getattr(self.emulator, f"{provider}_base_url")
        first, self.arrived = self.arrived + 1, self.arrived + amount
        numbers = range(first, first + amount)
        return [Ticket(n, text_of(n), provider, language, address, urgent) for n in numbers]

    async def _enqueue(self, tickets: list[Ticket]) -> None:
        await self.app.enqueue_many("answer", tickets, keys=[f"ticket-{ticket.ticket_id}" for ticket in tickets])

    async def _run(self, function: str) -> None:
        """One call of a function, as its schedule makes it."""
        dsn = self.stage.server.url(user=WORKER)
        self._look()  # a collected batch may be gone: its provider is told to delete it
        async with self._watching():
            done = await self.app.run_function(function, trigger=Trigger.SCHEDULE, dsn=dsn)
        if done.error is not None:
            raise PenstockError(f"{function} failed: {done.error}; play with --keep and look at {self.stage.log.name}")
        self._look()

    def _look(self) -> None:
        self.seen |= {batch.id: batch.token for batch in self.emulator.batches}

    async def _killed_submitter(self) -> int:
        """A process of its own that dies, as by kill -9, when the provider has said yes; its exit code."""
        point = str(CrashPoint.AFTER_BATCH_CREATE)
        async with self._watching():
            return await asyncio.to_thread(self.stage.call, APPLICATION, SUBMITTER, PENSTOCK_CRASH_AT=point)

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        """Show how the jobs stand while something goes on."""
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            self.stage.view.still()

    async def _watch(self) -> None:
        async with self.stage.logged_in(WORKER) as db:
            while True:
                rows = await db.fetch("select status, count(*) from penstock.jobs where job_type = 'answer' group by 1")
                self.stage.view.progress({"answer": {row["status"]: row["count"] for row in rows}}, ())
                await asyncio.sleep(TICK)

    async def _pass(self, *, hours: float) -> None:
        """Let time pass for the database and the providers."""
        self.emulator.advance(hours * 3600)
        await clock.wind(self.stage.owner, timedelta(hours=hours))

    async def _count(self, table: str, condition: str) -> int:
        found: int = await self.stage.owner.fetchval(f"select count(*) from {table} where {condition}")  # noqa: S608 - our own words
        return found
