"""The engine as it is: the same methods as the model, carried out by the store on a real database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from penstock import Penstock
from penstock.contract.claims import Claim
from penstock.contract.errors import IdempotencyKeyReused, LeaseLost, StepRefused
from penstock.contract.policies import Audit, Limits, Policy
from penstock.engine import replay as replays
from penstock.store import claims as store
from penstock.store import clock, jobs
from penstock.store import types as type_store
from tests.model.model import LEASE, Ticket, Type
from tests.support import suspects

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from penstock.store.claims import Db

SPAN: Final = timedelta(minutes=LEASE)
TABLES: Final = (
    "jobs, stages, types, rates, job_events, dead_letters, dead_letter_events, alerts, effects, effect_attempts, clock"
)


class Ground:
    """Jobs by number on a database; every method answers what the model's answers."""

    def __init__(self, app: Penstock, db: Db | None = None) -> None:
        self.app = app
        self.db: Db = db or app.pool  # for whoever needs no connection of his own
        self.ids: list[UUID] = []
        self._numbers: dict[UUID, int] = {}
        self._claims: dict[tuple[int, int], Claim] = {}

    async def declare(self, *types: Type) -> None:
        """Write the policies of *types*."""
        await type_store.sync(self.db, [_policy(job_type) for job_type in types])

    async def enqueue(
        self, job_type: Type, *, key: str | None = None, payload: int = 0, delay: int = 0, priority: int = 0
    ) -> int | None:
        """The number of the new job, or of the one that the key has; None: the key has another payload."""
        try:
            job_id = await self.app.enqueue(
                job_type.name,
                {"n": payload},
                key=key,
                delay=timedelta(minutes=delay) if delay else None,
                priority=priority,
            )
        except IdempotencyKeyReused:
            return None
        return self.number(job_id)

    def number(self, job_id: UUID) -> int:
        """The number of a job, which a job that has none yet gets now."""
        if job_id not in self._numbers:
            self._numbers[job_id] = len(self.ids)
            self.ids.append(job_id)
        return self._numbers[job_id]

    async def take(self, worker: str, types: Sequence[Type], limit: int, db: Db | None = None) -> list[Ticket]:
        """A set claim."""
        names, leases, marks = [t.name for t in types], [SPAN] * len(types), [store.START] * len(types)
        claims = await store.take(db or self.db, names, leases, marks, limit=limit, worker=worker, run=uuid4())
        return [self._ticket(claim, worker) for claim in claims]

    async def take_gated(self, worker: str, job_type: Type, limit: int, db: Db | None = None) -> list[Ticket]:
        """A claim under the type's lock."""
        claims = await store.take_gated(db or self.db, job_type.name, SPAN, limit=limit, worker=worker, run=uuid4())
        return [self._ticket(claim, worker) for claim in claims]

    async def take_suspect(self, worker: str, types: Sequence[Type], db: Db | None = None) -> list[Ticket]:
        """A claim of one job that runs alone."""
        claims = await suspects.take_suspect(db or self.db, [t.name for t in types], worker=worker, lease=SPAN)
        return [self._ticket(claim, worker) for claim in claims]

    def _ticket(self, claim: Claim, worker: str) -> Ticket:
        ticket = Ticket(self.number(claim.job_id), claim.claim_seq, worker)
        self._claims[ticket.job, ticket.fence] = claim
        return ticket

    def claim(self, ticket: Ticket) -> Claim:
        """What the store calls *ticket*."""
        return self._claims[ticket.job, ticket.fence]

    async def complete(self, worker: str, tickets: Sequence[Ticket], db: Db | None = None) -> set[Ticket]:
        """The claims that were lost."""
        lost = await store.complete(db or self.db, worker, [self.claim(ticket) for ticket in tickets])
        return {ticket for ticket in tickets if self.claim(ticket) in lost}

    async def finish(self, worker: str, ticket: Ticket, db: Db | None = None) -> bool:
        """Whether the claim still held."""
        try:
            await store.finish(db or self.db, worker, self.claim(ticket))
        except LeaseLost:
            return False
        return True

    async def requeue(
        self,
        worker: str,
        ticket: Ticket,
        *,
        delay: int,
        charged: bool,
        code: str | None,
        survived: bool = True,
        db: Db | None = None,
    ) -> bool:
        """Whether the claim still held."""
        span = timedelta(minutes=delay)
        move = store.Requeue(self.claim(ticket), span, charged=charged, code=code, message=code, survived=survived)
        return not await store.requeue(db or self.db, worker, [move])

    async def fail(self, worker: str, ticket: Ticket, code: str, db: Db | None = None) -> bool:
        """Whether the claim still held."""
        claim = self.claim(ticket)
        death = store.Death(
            claim,
            code=code,
            message=code,
            retryable=False,
            reason="non_retryable",
            stack=code,
            context="{}",
            attempts=claim.attempt_count + 1,
            alert=None,
        )
        return not await store.fail(db or self.db, worker, [death])

    async def renew(self, worker: str, ticket: Ticket, db: Db | None = None) -> bool | None:
        """Whether the claim still held; None: somebody's transaction has the row, and it was passed over."""
        claim = self.claim(ticket)
        owned = await store.renew(db or self.db, worker, [(claim.job_id, claim.claim_seq, SPAN)])
        return (owned[claim.job_id] or None) if owned else False

    async def give_up(self, worker: str, ticket: Ticket, db: Db | None = None) -> bool:
        """Whether the claim still held."""
        return await store.cancel(db or self.db, worker, self.claim(ticket), "enough")

    async def cancel(self, number: int, db: Db | None = None) -> str:
        """The status that the job has now."""
        return await jobs.cancel(db or self.db, self.ids[number], who="model", why=None)

    async def replay(self, number: int) -> int | None:
        """The number of the new job; None: it is refused."""
        try:
            return self.number(await replays.retry(self.db, self.ids[number], operator="model", notify=False))
        except StepRefused:
            return None

    async def reap(self, db: Db | None = None) -> dict[int, str]:
        """The outcome of every claim that had expired."""
        return {self.number(row["job_id"]): row["outcome"] for row in await store.reap(db or self.db)}

    async def promote(self, job_type: Type) -> int:
        """How many jobs have become ready."""
        return await store.promote(self.db, [job_type.name])

    async def wind(self, minutes: int) -> None:
        """Wind the clock, forward or back."""
        await clock.wind(self.db, timedelta(minutes=minutes))

    async def rows(self) -> dict[int, asyncpg.Record]:
        """Every job by its number."""
        return {self.number(row["job_id"]): row for row in await self.db.fetch("select * from penstock.jobs")}

    async def letters(self) -> list[int]:
        """The job of every dead letter."""
        return [self.number(row[0]) for row in await self.db.fetch("select job_id from penstock.dead_letters")]

    async def trails(self) -> dict[int, list[asyncpg.Record]]:
        """The audit of every job that has one."""
        trails: dict[int, list[asyncpg.Record]] = {}
        for row in await self.db.fetch("select * from penstock.job_events order by event_id"):
            trails.setdefault(self.number(row["job_id"]), []).append(row)
        return trails


async def empty(superuser: asyncpg.Connection[Any]) -> None:
    """Begin anew; only a superuser gets past the guards of the append-only tables."""
    await superuser.execute(
        "set session_replication_role = replica; set search_path = penstock; "
        f"truncate {TABLES}; set session_replication_role = origin"
    )


def _policy(job_type: Type) -> Policy:
    return Policy(
        job_type.name,
        attempts=job_type.attempts,
        stale_counts_attempt=job_type.stale_counts,
        max_reclaims=job_type.max_reclaims,
        limits=Limits(running=job_type.max_running),
        audit=Audit.FULL if job_type.audited else Audit.SUMMARY,
    )
