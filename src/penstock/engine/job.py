"""What a handler gets to know and to do about its job."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import Cancel, LeaseLost, SettingsInvalid, Snooze
from penstock.contract.payloads import encode
from penstock.engine.batches.asking import ask
from penstock.engine.effects import Effect, decode_result, perform_effect
from penstock.engine.owned import owned
from penstock.engine.patience import persist, uninterrupted
from penstock.engine.running import Stop
from penstock.store import claims as store
from penstock.store import connect, effects, stages

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.contract.calls import Answer, Request
    from penstock.contract.policies import Policy
    from penstock.engine.bridge import Bridge
    from penstock.engine.effects import Settled
    from penstock.engine.ledger import Ledger
    from penstock.engine.running import Running
    from penstock.engine.workplace import Workplace
    from penstock.store.claims import Transaction

    Isolation = Literal["read_committed", "repeatable_read", "serializable"]


class Job:
    """The handle of a running job: ids, stage results, its transaction, its effects."""

    __slots__ = ("_in_hand", "_in_transaction", "_loop", "_place", "_results", "_running", "saved")

    def __init__(self, running: Running, place: Workplace, results: dict[str, Any]) -> None:
        self._running = running
        self._place = place
        self._results = results
        self._in_hand: set[str] | None = None  # keys of effects under way
        self._in_transaction = False
        self._loop: asyncio.AbstractEventLoop | None = None  # set for handlers in threads
        self.saved: Any = None  # the result of a stage that ends with transaction()

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
    def last_attempt(self) -> bool:
        """Whether the job ends if this attempt of the stage fails, whatever of."""
        return self.attempt >= self._running.claim.max_attempts

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

    def snooze(self, delay: timedelta) -> NoReturn:
        """End this attempt and run again after *delay*; no attempt is used."""
        raise Snooze(delay)

    def cancel(self, note: str = "canceled by its handler") -> NoReturn:
        """End this job as canceled."""
        raise Cancel(note)

    def count_call(self, provider: str, model: str) -> None:
        """Count a provider call in the record of the run (Q-79)."""
        self._running.run.count_calls(provider, model)

    async def ask(self, request: Request) -> Answer:
        """One call to the model that *request* is routed to; counted in the run and in the day's spend (C-64).

        Raises `Failed` with a class of the closed list. Nothing is retried
        here, and no other provider is tried (Q-71).
        """
        return await ask(self._place, self._running, request)

    def save(self, result: Any) -> None:
        """Keep *result* for the stages that follow, when the stage ends with `transaction()`."""
        self.saved = result

    @asynccontextmanager
    async def transaction(
        self, result: Any = None, *, isolation: Isolation | None = None
    ) -> AsyncIterator[Transaction]:
        """A transaction whose commit also completes the stage, fenced (C-60).

        If the lease has been lost, everything in it rolls back and `LeaseLost`
        is raised. *result*, or what `save` was given inside the block, is kept
        for the stages that follow. The connection is one of a few that handlers
        share: take it late, and call nobody outside while you hold it.
        """
        with self._only_transaction():
            self.saved = result
            async with self._place.lender.lend() as connection, owned(connection):
                transaction = connection.transaction(isolation=isolation)
                await transaction.start()
                try:
                    yield connection
                    await uninterrupted(self._end_stage(connection, transaction))
                except BaseException:
                    if not self._running.recorded:
                        with suppress(Exception):  # the error that ended the block is the one to tell
                            await transaction.rollback()
                    raise

    @contextmanager
    def _only_transaction(self) -> Iterator[None]:
        """One that commits ends the stage, so a second one beside it would take the end away from the first."""
        if self._running.recorded:
            raise SettingsInvalid("job.transaction() ends the stage, so it can be used once in a handler")
        if self._in_transaction:
            raise SettingsInvalid(
                "job.transaction() is open in this handler already; pass its connection on to who writes too, "
                "and use connection.transaction() where a savepoint is wanted"
            )
        self._in_transaction = True
        try:
            yield
        finally:
            self._in_transaction = False

    async def _end_stage(self, connection: Transaction, transaction: Any) -> None:
        """Record the end of the stage in the handler's transaction, and commit it."""
        claim, policy = self._running.claim, self.policy
        if self._running.stop is Stop.LOST:
            raise LeaseLost(claim.job_id)
        next_stage = policy.next_stage(claim.stage)
        if next_stage is None:
            await store.finish(connection, self._place.worker_id, claim)
        else:
            text = None if self.saved is None else encode(self.saved, max_bytes=policy.max_payload_bytes)
            await store.advance(connection, self._place.worker_id, claim, next_stage, text)
            self.saved = decode_result(text)
        passing(CrashPoint.BEFORE_TRANSACTION_COMMIT)
        try:
            await transaction.commit()
        except connect.AWAY:
            if not await self._has_ended(claim.stage):
                raise
        self._running.recorded = True
        passing(CrashPoint.AFTER_TRANSACTION_COMMIT)

    async def _has_ended(self, stage: str) -> bool:
        """A commit whose reply was lost is an unknown, not a failure: the row tells (rule 6 of the fault list)."""
        claim, place = self._running.claim, self._place
        found = await persist("commit", lambda: stages.progress(place.pool, place.worker_id, claim))
        return found is not None and (found.status == "completed" or found.stage != stage)

    async def effect(
        self,
        name: str,
        *,
        perform: Callable[[str], Awaitable[Any]],
        settle: Callable[[str], Awaitable[Settled]] | None = None,
        key: str | None = None,
        token: str | None = None,
        repeat_when_uncertain: bool = False,
        ledger: Ledger | None = None,
    ) -> Any:
        """Do something outside the database at most once per key (C-61).

        *perform* gets a token that is the same on every try and returns what is
        to be remembered. After a crash *settle* is asked first whether it had
        happened. Without *settle* an uncertain effect raises `EffectUncertain`,
        unless *repeat_when_uncertain* accepts a possible second one. Without
        *key* the effect is this job's own, and that of its replays. *token* is
        for an outside that knows the effect by a token of yours; *ledger* for
        rows of yours that change together with the engine's.
        """
        with self.one_at_a_time(name, key, token=token, ledger=ledger) as effect:
            return await perform_effect(
                effect, perform=perform, settle=settle, repeat_when_uncertain=repeat_when_uncertain
            )

    @contextmanager
    def one_at_a_time(
        self, name: str, key: str | None, *, token: str | None = None, ledger: Ledger | None = None
    ) -> Iterator[Effect]:
        """A handler may try an effect again, but not twice at once: nobody could tell the two apart."""
        effect = Effect(self._place, self._running, name, key=key, token=token, ledger=ledger or effects)
        if self._in_hand is None:
            self._in_hand = set()
        if effect.key in self._in_hand:
            raise SettingsInvalid(f"effect {name!r} is under way in this very handler; give each one a key of its own")
        self._in_hand.add(effect.key)
        try:
            yield effect
        finally:
            self._in_hand.discard(effect.key)

    @property
    def sync(self) -> Bridge:
        """`transaction` and `effect` for a handler in a thread."""
        if self._loop is None:
            raise SettingsInvalid("job.sync is for handlers that are plain functions; await job.transaction() here")
        from penstock.engine.bridge import Bridge

        return Bridge(self, self._loop)

    def runs_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """Open the way from the handler's thread back into *loop*."""
        self._loop = loop

    def __repr__(self) -> str:
        """Ids only."""
        return f"<job {self.job_id} ({self.job_type}, {self.stage}, attempt {self.attempt})>"
