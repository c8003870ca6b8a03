"""What a handler gets to know and to do about its job."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import Cancel, LeaseLost, SettingsInvalid, Snooze
from penstock.contract.payloads import encode
from penstock.engine.effects import perform_effect
from penstock.engine.running import Stop
from penstock.store import claims as store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.contract.policies import Policy
    from penstock.engine.effects import Settled
    from penstock.engine.running import Running
    from penstock.engine.workplace import Workplace
    from penstock.store.claims import Transaction


class Job:
    """The handle of a running job: ids, stage results, its transaction, its effects."""

    __slots__ = ("_place", "_results", "_running", "saved")

    def __init__(self, running: Running, place: Workplace, results: dict[str, Any]) -> None:
        self._running = running
        self._place = place
        self._results = results
        self.saved: Any = None  # the result given to transaction()

    @property
    def job_id(self) -> UUID:
        """The id of the job."""
        return self._running.claim.job_id

    @property
    def root_job_id(self) -> UUID:
        """The id of the job that this one replays, or its own."""
        claim = self._running.claim
        return claim.replay_of_job_id or claim.job_id

    @property
    def job_type(self) -> str:
        """The type's name."""
        return self._running.claim.job_type

    @property
    def stage(self) -> str:
        """The stage that runs."""
        return self._running.claim.stage

    @property
    def attempt(self) -> int:
        """The ordinal of this attempt of the stage, from 1."""
        return self._running.attempts + 1

    @property
    def run_id(self) -> UUID:
        """The run that claimed the job."""
        return self._running.run.run_id

    @property
    def claim_seq(self) -> int:
        """The fence: rises with every claim of the job."""
        return self._running.claim.claim_seq

    @property
    def created_at(self) -> datetime:
        """When the job was enqueued."""
        return self._running.claim.created_at

    @property
    def policy(self) -> Policy:
        """The policy of the type."""
        return self._running.job_type.policy

    @property
    def stopping(self) -> bool:
        """Whether the job should end soon: lease lost, canceled, out of time. For handlers in threads."""
        return self._running.stop is not None

    def result(self, stage: str) -> Any:
        """What the finished *stage* returned."""
        try:
            return self._results[stage]
        except KeyError:
            raise SettingsInvalid(f"stage {stage!r} of job {self.job_id} has no result: it has not finished") from None

    def snooze(self, delay: timedelta) -> None:
        """End this attempt and run again after *delay*; no attempt is used."""
        raise Snooze(delay)

    def cancel(self, note: str = "canceled by its handler") -> None:
        """End this job as canceled."""
        raise Cancel(note)

    def count_call(self, provider: str, model: str) -> None:
        """Count a provider call in the record of the run (Q-79)."""
        self._running.run.by_model[f"{provider}/{model}"] += 1

    @asynccontextmanager
    async def transaction(self, result: Any = None) -> AsyncIterator[Transaction]:
        """A transaction whose commit also completes the stage, fenced (C-60).

        If the lease has been lost, everything in it rolls back and `LeaseLost`
        is raised. *result* is saved for the stages that follow.
        """
        if self._running.recorded:
            raise SettingsInvalid("job.transaction() ends the stage, so it can be used once in a handler")
        claim, policy = self._running.claim, self.policy
        next_stage = policy.next_stage(claim.stage)
        async with self._place.pool.acquire() as connection:
            async with connection.transaction():
                yield connection
                if self._running.stop is Stop.LOST:
                    raise LeaseLost(claim.job_id)
                if next_stage is None:
                    await store.finish(connection, self._place.worker_id, claim)
                else:
                    self.saved = result
                    text = None if result is None else encode(result, max_bytes=policy.max_payload_bytes)
                    await store.advance(connection, self._place.worker_id, claim, next_stage, text)
                passing(CrashPoint.BEFORE_TRANSACTION_COMMIT)
            self._running.recorded = True
            passing(CrashPoint.AFTER_TRANSACTION_COMMIT)

    async def effect(
        self,
        name: str,
        *,
        perform: Callable[[str], Awaitable[Any]],
        settle: Callable[[str], Awaitable[Settled]] | None = None,
        key: str | None = None,
        repeat_when_uncertain: bool = False,
    ) -> Any:
        """Do something outside the database at most once per key (C-61).

        *perform* gets a token that is the same on every try and returns what is
        to be remembered. After a crash *settle* is asked first whether it had
        happened. Without *settle* an uncertain effect raises `EffectUncertain`,
        unless *repeat_when_uncertain* accepts a possible second one.
        """
        return await perform_effect(
            self._place,
            self._running,
            name,
            key=key,
            perform=perform,
            settle=settle,
            repeat_when_uncertain=repeat_when_uncertain,
        )

    def __repr__(self) -> str:
        """Ids only."""
        return f"<job {self.job_id} ({self.job_type}, {self.stage}, attempt {self.attempt})>"


def decode_result(text: str | None) -> Any:
    """A stage's result as its handler returned it."""
    return None if text is None else json.loads(text)
