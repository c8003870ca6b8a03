"""A review application whose stages fail on demand, and an operator's connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Audit, Failed, FailureClass, Job, Penstock, Schedule
from penstock.engine import dead_letters
from penstock.engine.dead_letters import Cause, DeadLetter
from penstock.testing import Harness

STAGES = ("fetch", "llm", "notify")


@dataclass
class Office:
    """The application at work, with its letters."""

    h: Harness
    db: asyncpg.Connection[Any]  # logged in as penstock_operator
    faults: dict[str, list[BaseException]] = field(default_factory=lambda: defaultdict(list))
    calls: list[tuple[UUID, str]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)

    async def dead(self, stage: str = "notify", error: FailureClass = FailureClass.NOT_FOUND, **options: Any) -> UUID:
        """A review that has died in *stage*; returns its dead letter."""
        self.faults[stage].append(Failed(error))
        job_id = await self.h.enqueue("review", {"changelist": 7}, **options)
        await self.h.drain()
        return await self.letter_of(job_id)

    async def letter_of(self, job_id: UUID) -> UUID:
        found = await dead_letters.of_job(self.db, job_id)
        assert found is not None
        return found

    async def letter(self, dead_letter_id: UUID) -> DeadLetter:
        return await dead_letters.get(self.db, dead_letter_id)

    async def validated(self, dead_letter_id: UUID) -> UUID:
        """The letter, taken through the steps up to its replay."""
        await dead_letters.triage(self.db, dead_letter_id, Cause.DATA, operator="ann")
        await dead_letters.remediate(self.db, dead_letter_id, "channel restored", operator="ann")
        await dead_letters.validate(self.db, dead_letter_id, "INC-7", replay_safe=True, operator="ben")
        return dead_letter_id

    def stages_called(self, job_id: UUID) -> list[str]:
        return [stage for called, stage in self.calls if called == job_id]


@pytest.fixture
async def operator(role_dsn: Callable[[str], str]) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(role_dsn("penstock_operator"))
    yield connection
    await connection.close()


@pytest.fixture
async def office(dsn: str, operator: asyncpg.Connection[Any]) -> AsyncIterator[Office]:
    app = Penstock(dsn)
    review = app.type(
        "review", stages=STAGES, attempts=5, backoff=Schedule([60]), steps_required=True, audit=Audit.FULL
    )
    async with Harness(app) as h:
        made = Office(h, operator)
        for name in STAGES:
            review.stage(name)(_handler(made, name))
        _plain_types(app, made)
        await app.sync_types()
        yield made


def _handler(office: Office, stage: str) -> Callable[..., Any]:
    async def handle(job: Job, args: dict[str, Any]) -> dict[str, Any]:
        office.calls.append((job.job_id, stage))
        if stage == "notify":
            office.results.append((job.result("fetch"), job.result("llm")))
        if office.faults[stage]:
            raise office.faults[stage].pop(0)
        return {"stage": stage, "changelist": args["changelist"], "by": str(job.job_id)}

    return handle


def _plain_types(app: Penstock, office: Office) -> None:
    @app.job("plain", attempts=4, backoff=Schedule([0, 30, 300]))
    async def plain(job: Job) -> None:
        office.calls.append((job.job_id, "run"))
        if office.faults["run"]:
            raise office.faults["run"].pop(0)

    @app.job("complaint_rewrite", attempts=2, replayable=False, steps_required=True, error_messages=False)
    async def rewrite(job: Job, args: dict[str, Any]) -> None:
        office.calls.append((job.job_id, "run"))
        raise ValueError(f"cannot rewrite: {args['text']}")
