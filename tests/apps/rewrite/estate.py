"""An estate: homes with members, and requests taken as far as a test needs them, through the application's own rows.

Each step is done by the role whose step it is. No provider and no worker is
involved: jobs are claimed and ended by the engine's own statements.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from penstock.apps.rewrite import homes, repository
from penstock.apps.rewrite.envelope import HomeKey
from penstock.apps.rewrite.keyring import Keyring, new_key
from penstock.apps.rewrite.models import (
    JOB_TYPE,
    ClassifierResultV1,
    Confidence,
    Lane,
    PreferencesV1,
    RewriteRequestV1,
    RewriteResponseV1,
    RoutingDecisionV1,
    Strength,
    Surface,
)
from penstock.contract.calls import Execution, Route
from penstock.contract.claims import Claim
from penstock.contract.groups import batch_key
from penstock.store import batch_items, claims, clock, submissions
from penstock.store.roles import ORCHESTRATOR, WORKER

LEASE = timedelta(minutes=10)
HELD_BY = "w"
TYPE_ROW = """
insert into penstock.types (job_type, policy, stages, max_attempts, dispatch, audited, replayable, enqueue_role)
values ('complaint_rewrite', '{}', '{rewrite}', 2, 'scheduled', true, false, 'penstock_orchestrator')
on conflict do nothing
"""


def routed(**members: Any) -> RoutingDecisionV1:
    """A route, with these members of it changed."""
    plain: dict[str, Any] = {
        "provider": "openai",
        "adapter_kind": "openai_responses",
        "model": "gpt-5-mini",
        "prompt_version": "v1",
        "policy_version": "v1",
        "execution_mode": "batch",
    }
    return RoutingDecisionV1(**(plain | members))


def classified(**members: Any) -> ClassifierResultV1:
    """A classification, with these members of it changed."""
    plain: dict[str, Any] = {
        "classifier_version": "rules-1",
        "detected_language": "en",
        "language_confidence": Confidence.HIGH,
        "topics": ("noise",),
        "intent": "complaint",
    }
    return ClassifierResultV1(**(plain | members))


def asked(text: str = "turn it down", source: str = "en", target: str = "es", **members: Any) -> RewriteRequestV1:
    """What is sealed of a message."""
    plain: dict[str, Any] = {
        "message_text": text,
        "surface": Surface.DIRECT_MESSAGE,
        "rewrite_strength": Strength.LIGHT_TOUCH,
        "source_locale": source,
        "target_locale": target,
        "lane": Lane.SAME_LANGUAGE if source == target else Lane.CROSS_LANGUAGE,
    }
    return RewriteRequestV1(**(plain | members))


def death(claim: Claim, code: str = "SCHEMA_INVALID") -> claims.Death:
    """An end for good, with what its dead letter says."""
    attempts = claim.attempt_count + 1
    return claims.Death(claim, code, "m", False, "non_retryable", f"{code}: rewrite:1", "{}", attempts, None)


@dataclass(frozen=True)
class Home:
    """A home with a sender and a recipient."""

    home_id: UUID
    sender: UUID
    recipient: UUID


@dataclass(frozen=True)
class Unit:
    """A request, and its job once it has one."""

    home: Home
    frozen: repository.Frozen
    request: RewriteRequestV1
    job_id: UUID | None = None

    @property
    def request_id(self) -> UUID:
        return self.frozen.rewrite_request_id

    @property
    def job(self) -> UUID:
        assert self.job_id is not None
        return self.job_id


@dataclass
class Estate:
    """One database, seen by its owner and by the roles."""

    owner: asyncpg.Connection[Any]
    role_dsn: Callable[[str], str]
    keyring: Keyring = field(default_factory=lambda: Keyring.of(new_key("k1")))
    logins: dict[str, asyncpg.Connection[Any]] = field(default_factory=dict)
    held: dict[UUID, Claim] = field(default_factory=dict)

    async def login(self, role: str) -> asyncpg.Connection[Any]:
        """The connection of a role."""
        if role not in self.logins:
            self.logins[role] = await asyncpg.connect(self.role_dsn(role))
        return self.logins[role]

    @asynccontextmanager
    async def at(self, role: str, home_id: UUID | None) -> AsyncIterator[asyncpg.Connection[Any]]:
        """A transaction of *role* in a home, or in none."""
        connection = await self.login(role)
        async with connection.transaction():
            if home_id is not None:
                await homes.enter_home(connection, home_id)
            yield connection

    async def key(self, home_id: UUID) -> HomeKey:
        """The data key of a home."""
        async with self.at(ORCHESTRATOR, home_id) as connection:
            return await homes.home_key(connection, self.keyring, home_id, create=True)

    async def home(self, sender: str | None = "en-US", recipient: str | None = "es-MX") -> Home:
        """A home with two members of these locales, and its key."""
        made = Home(uuid4(), uuid4(), uuid4())
        async with self.at(ORCHESTRATOR, None) as connection:
            await homes.put_home(connection, made.home_id)
            await homes.put_member(connection, made.home_id, made.sender, sender)
            await homes.put_member(connection, made.home_id, made.recipient, recipient)
        await self.key(made.home_id)
        return made

    async def received(self, home: Home, text: str = "turn it down", **options: Any) -> Unit:
        """A request that is stored and has no job."""
        request = asked(text, **{name: options.pop(name) for name in ("source", "target") if name in options})
        preferences = options.pop("preferences", PreferencesV1())
        request = request.model_copy(update={"preferences": preferences})
        key = await self.key(home.home_id)
        new = repository.NewRequest(
            home.home_id, home.sender, home.recipient, request, options.pop("result", classified()), **options
        )
        async with self.at(ORCHESTRATOR, home.home_id) as connection:
            return Unit(home, await repository.insert_request(connection, key, new), request)

    async def queued(self, home: Home, text: str = "turn it down", **options: Any) -> Unit:
        """A request whose job waits."""
        decision = options.pop("decision", routed())
        unit = await self.received(home, text, **options)
        async with self.at(ORCHESTRATOR, home.home_id) as connection:
            job_id = await self.enqueue(connection, unit)
            await repository.insert_job(connection, home.home_id, unit.request_id, job_id, decision)
            await repository.mark_queued(connection, home.home_id, unit.request_id)
        return Unit(home, unit.frozen, unit.request, job_id)

    async def enqueue(self, connection: asyncpg.Connection[Any], unit: Unit) -> UUID:
        """The job of a unit, as the orchestrator enqueues it."""
        found: UUID = await connection.fetchval(
            "select penstock.enqueue($1, jsonb_build_object('rewrite_request_id', $2::uuid, 'recipient_user_id', "
            "$3::uuid, 'home_id', $4::uuid), key => $2::text || ':' || $3::text)",
            JOB_TYPE,
            unit.request_id,
            unit.home.recipient,
            unit.home.home_id,
        )
        return found

    async def claim(self, limit: int = 100) -> list[Claim]:
        """What a worker gets when it asks for jobs."""
        worker = await self.login(WORKER)
        taken = await claims.take(worker, [JOB_TYPE], [LEASE], [claims.START], limit=limit, worker=HELD_BY, run=uuid4())
        self.held |= {claim.job_id: claim for claim in taken}
        return taken

    async def claimed(self, home: Home, **options: Any) -> tuple[Unit, Claim]:
        """A request whose job is in a worker's hands."""
        unit = await self.queued(home, **options)
        return unit, next(claim for claim in await self.claim() if claim.job_id == unit.job)

    async def completed(self, home: Home, answer: str = "please be quieter", **options: Any) -> Unit:
        """A request with its output."""
        unit, claim = await self.claimed(home, **options)
        key = await self.key(home.home_id)
        async with self.at(WORKER, home.home_id) as connection:
            await self.fill(connection, key, unit, answer)
            await repository.complete_request(connection, home.home_id, unit.request_id)
            await claims.finish(connection, HELD_BY, claim)
        return unit

    async def fill(self, connection: asyncpg.Connection[Any], key: HomeKey, unit: Unit, answer: str = "calm") -> bool:
        """The output of a unit, as a worker stores it."""
        response = RewriteResponseV1(
            rewritten_text=answer,
            output_locale=unit.request.target_locale,
            rewrite_strength=unit.request.rewrite_strength,
            prompt_version="v1",
            policy_version="v1",
        )
        return await repository.fill_slot(
            connection,
            key,
            job_id=unit.job,
            rewrite_request_id=unit.request_id,
            recipient_user_id=unit.home.recipient,
            response=response,
            eval_version="e1",
            lexicon_version="x1",
        )

    async def submit(self, *units: Unit, provider_batch_id: str = "batch-1") -> UUID:
        """Hand claimed jobs over to one provider batch, with the engine's own statements."""
        worker, batch_id = await self.login(WORKER), uuid4()
        request = units[0].request
        route = Route(
            "openai", "gpt-5-mini", "openai_responses", execution=Execution.BATCH, prompt_version="v1",
            policy_version="v1", lane=str(request.lane), source_locale=request.source_locale,
            target_locale=request.target_locale,
        )  # fmt: skip
        rows = [await self.job_row(unit) for unit in units]
        items = [
            submissions.Item(row["job_id"], row["claim_seq"], row["attempt_count"] + 1, f"{batch_id.hex}-{n}-1")
            for n, row in enumerate(rows)
        ]
        draft = submissions.Draft(batch_id, JOB_TYPE, "rewrite", batch_key(route), uuid4(), 10, "sha", items)
        await submissions.intend(worker, HELD_BY, draft)
        taken = submissions.Taken(provider_batch_id, "file-1", None, timedelta(days=1), timedelta(hours=1))
        assert (await submissions.mark(worker, batch_id, taken, worker=HELD_BY)).marked
        return batch_id

    async def fail(self, unit: Unit, code: str = "SCHEMA_INVALID") -> None:
        """End the claimed job of a unit for good, with its dead letter, as its worker does."""
        assert await claims.fail(await self.login(WORKER), HELD_BY, [death(self.held[unit.job], code)]) == []

    async def fail_item(self, batch_id: UUID, unit: Unit, code: str = "SCHEMA_INVALID") -> str:
        """End the first job of a batch for good, as its collector does; returns the state of its item."""
        end = death(self.held[unit.job], code)
        ending = batch_items.Ending(0, unit.job, end.claim.claim_seq, None, 0, 0, 0)
        dead = batch_items.Dead(
            ending, code, end.message, end.retryable, end.reason, end.stack, end.context, end.attempts, None
        )
        (settled,) = await batch_items.fail(await self.login(WORKER), batch_id, None, [dead])
        return settled.state

    async def request_row(self, unit: Unit) -> asyncpg.Record:
        """The stored request."""
        row: asyncpg.Record | None = await self.owner.fetchrow(
            "select * from rewrite.rewrite_requests where rewrite_request_id = $1", unit.request_id
        )
        assert row is not None
        return row

    async def job_row(self, unit: Unit) -> asyncpg.Record:
        """The stored job."""
        row: asyncpg.Record | None = await self.owner.fetchrow(
            "select * from penstock.jobs where job_id = $1", unit.job
        )
        assert row is not None
        return row

    async def pass_time(self, **span: float) -> None:
        """Wind the clock of the database forward."""
        await clock.wind(self.owner, timedelta(**span))

    async def close(self) -> None:
        """Log everybody out."""
        for connection in (self.owner, *self.logins.values()):
            await connection.close()


@asynccontextmanager
async def open_estate(dsn: str, role_dsn: Callable[[str], str]) -> AsyncIterator[Estate]:
    """An estate on a fresh database that knows the type."""
    estate = Estate(await asyncpg.connect(dsn), role_dsn)
    try:
        await estate.owner.execute(TYPE_ROW)
        yield estate
    finally:
        await estate.close()
