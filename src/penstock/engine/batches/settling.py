"""Settling: each item of a batch ends by itself, as its own type judges it (Q-75, A-55).

An answer is accepted outside any transaction. What follows is written item by
item where the type stores something of its own, else in sets that fall apart
into single items as soon as the database refuses one: no item's failure ever
reaches another. Every write is fenced on the job's claim; a result whose job
waits for it no more is late, dropped, and only its cost counts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.crash import CrashPoint, passing
from penstock.contract.failure_signals import sqlstate
from penstock.contract.payloads import encode
from penstock.engine.batches.accepting import Accepted, accept_all, refused
from penstock.engine.batches.ends import ending, first_verdict, put_off
from penstock.engine.batches.items import PATIENT, REFUSED, Line, ParkedJob
from penstock.engine.halves import in_halves
from penstock.engine.owned import begun, owned
from penstock.engine.patience import persist
from penstock.store import batch_items as store
from penstock.store import claims, connect, types
from penstock.store.batch_items import Back, Dead, Ending, Onward, Settled
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from uuid import UUID

    from penstock.contract.prices import Price
    from penstock.engine.batches.tallying import Tally
    from penstock.engine.registry import JobType
    from penstock.store.batch_items import End, Leased
    from penstock.store.claims import Transaction
    from penstock.store.connect import Pool, Record

TRIES: Final = 5  # of one item's transaction while the database is away


@dataclass(slots=True)
class Item:
    """One open item, its line, and the job it stands for."""

    row: Record
    line: Line
    job: ParkedJob
    end: Ending

    @property
    def number(self) -> int:
        """Its place in the batch."""
        return int(self.row["batch_item_index"])


@dataclass(slots=True)
class Settler:
    """Settles items of one batch."""

    pool: Pool
    batch: Leased
    job_type: JobType
    price: Price | None
    random: Callable[[], float]
    run_id: UUID
    tally: Tally
    _items: dict[int, Item] = field(default_factory=dict)
    _refusals: dict[UUID, int] = field(default_factory=dict)  # how often jobs went back for no reason given

    async def settle(self, lines: dict[int, Line]) -> None:
        """Bring each of these items to its end; one that cannot be written stays open."""
        found = await persist("items", lambda: store.read(self.pool, self.batch.batch_id, list(lines)))
        results = await self._results(found)
        policy = self.job_type.policy
        self._items = {}
        for row in found:
            number, line = row["batch_item_index"], lines[row["batch_item_index"]].unpack()
            job = ParkedJob(row, policy, results.get(row["job_id"], {}))
            self._items[number] = Item(row, line, job, ending(row, line, self.price))
        parked = [item for item in self._items.values() if item.row["parked"]]
        unexplained = [item.job.job_id for item in parked if item.line.code == REFUSED]
        if unexplained:
            self._refusals = await persist("refusals", lambda: store.refusals(self.pool, unexplained))
        late = [item.end for item in self._items.values() if not item.row["parked"]]
        answered = [item for item in parked if item.line.answer is not None]
        ends: list[End] = [*late, *(self._without_answer(item) for item in parked if item.line.answer is None)]
        lane = self.job_type.lanes.get(self.batch.stage)
        for item, verdict in zip(answered, await accept_all(lane, policy, answered), strict=True):
            if not isinstance(verdict, Accepted):
                ends.append(first_verdict(item.row, item.end, verdict, self))
            elif lane is not None and lane.persist is not None:
                await self._persist(item, verdict, lane.persisted)
            else:
                ends.append(self._good_end(item, verdict.result))
        await self._write(ends)

    async def _results(self, rows: Sequence[Record]) -> dict[UUID, dict[str, str | None]]:
        """What the earlier stages of staged jobs returned."""
        staged = [row["job_id"] for row in rows if row["staged"] and row["parked"]]
        results: dict[UUID, dict[str, str | None]] = {}
        if staged:
            for row in await persist("stages", lambda: store.stage_results(self.pool, staged)):
                results.setdefault(row["job_id"], {})[row["stage"]] = row["result"]
        return results

    def _without_answer(self, item: Item) -> End:
        line = item.line
        patient = line.failure is None or self._refusals.get(item.job.job_id, 0) < PATIENT
        if line.back is not None and patient:
            return Back(item.end, line.back, charged=False, code=line.code or "REQUEUED", message=line.code or "")
        return first_verdict(item.row, item.end, refused(line.failure), self)

    def _good_end(self, item: Item, result: Any) -> End:
        """The end of an accepted item; a result that cannot be stored for the next stage is the item's failure."""
        policy = self.job_type.policy
        next_stage = policy.next_stage(item.job.stage) if item.row["staged"] or policy.staged else None
        if next_stage is None:
            return item.end
        try:
            text = None if result is None else encode(result, max_bytes=policy.max_payload_bytes)
        except Exception as error:
            return self._failed(item, error)
        return Onward(item.end, item.job.stage, next_stage, text)

    # ------------------------------------------------------------- one by one

    async def _persist(self, item: Item, accepted: Accepted, store_result: Callable[..., Awaitable[None]]) -> None:
        """The application's rows and the end of the stage, in one transaction (C-60)."""
        end = self._good_end(item, accepted.result)
        if not isinstance(end, Ending | Onward):
            await self._write([end])
            return
        try:
            settled = await persist(
                "item",
                lambda: self._in_one(item, end, partial(store_result, item.job, accepted.args, accepted.result)),
                lambda tries: tries >= TRIES,
            )
        except _StoreRaised as raised:
            await self._write([self._failed(item, raised.error)])
        except connect.AWAY as error:
            if not (sqlstate(error) or "").startswith(("40", "55")):
                raise  # nobody was asked: the item stays open for the next run
            await self._write([self._failed(item, error)])
        except Exception as error:
            await self._write([self._failed(item, error)])
        else:
            self._tell({item.number: end}, settled)

    def _failed(self, item: Item, error: BaseException) -> End:
        return first_verdict(item.row, item.end, refused(error, self.job_type.policy), self)

    async def _in_one(
        self, item: Item, end: Ending | Onward, store_result: Callable[[Transaction], Awaitable[None]]
    ) -> list[Settled]:
        limit = self.job_type.policy.timeout_of(item.job.stage)
        async with self.pool.acquire() as connection:
            try:
                async with owned(connection), begun(connection):
                    if await store.hold(connection, item.end.job_id, item.end.claim_seq):
                        await _store(connection, store_result, None if limit is None else limit.total_seconds())
                    settled = await self._end_on(connection, [end])
                    passing(CrashPoint.BEFORE_ITEM_COMMIT)
            finally:
                if not connection.is_closed():
                    with suppress(*connect.AWAY):
                        await connection.reset()  # whatever the application left in the session
        passing(CrashPoint.AFTER_ITEM_COMMIT)
        return settled

    # ----------------------------------------------------------------- in sets

    async def _write(self, ends: Sequence[End]) -> None:
        """Write *ends*, each kind in one set; what the database refuses becomes that item's failed attempt."""
        for kind in (Ending, Onward, Dead, Back):
            some = [end for end in ends if isinstance(end, kind)]
            if some:
                await self._write_kind(some)

    async def _write_kind(self, ends: Sequence[End]) -> None:
        passing(CrashPoint.BEFORE_ITEM_COMMIT)
        settled, rejected = await in_halves(ends, lambda some: persist("items", lambda: self._end_on(self.pool, some)))
        passing(CrashPoint.AFTER_ITEM_COMMIT)
        self._tell({_of(end).number: end for end in ends}, settled)
        for end, error in rejected:
            await self._refused(end, error)

    async def _end_on(self, db: Any, ends: Sequence[Any]) -> list[Settled]:
        write = _WRITES[type(ends[0])]
        settled: list[Settled] = await write(db, self.batch.batch_id, self.job_type.policy.cap_micros, ends)
        return settled

    async def _refused(self, end: End, error: Exception) -> None:
        """A trigger of the application refused an end (C-62): the attempt has failed, and the others go on."""
        events.end_refused(self.batch.job_type, type(end).__name__.lower(), type(error).__name__)
        item = self._items[_of(end).number]
        match end:
            case Ending() | Onward():
                await self._write_kind([self._failed(item, error)])
            case Dead():
                await self._note_refusal(error)
                await self._write_kind([put_off(end)])
            case _:
                await self._note_refusal(error)  # nothing can be written: the item stays open
                self.tally.stuck += 1

    async def _note_refusal(self, error: Exception) -> None:
        state = sqlstate(error) or "?"
        await persist("refusal", lambda: claims.note_refusal(self.pool, self.batch.job_type, state))

    def _tell(self, ends: dict[int, End], settled: Sequence[Settled]) -> None:
        for done in settled:
            self.tally.settled(self.batch, ends[done.number], done)

    async def move_breaker(self) -> None:
        """Tell the type's breaker of failures that its next jobs would meet likewise."""
        for code in self.tally.take_trips():
            if await persist("breaker", partial(types.trip_breaker, self.pool, self.batch.job_type, code)):
                events.breaker_opened(self.batch.job_type, code)


class _StoreRaised(Exception):
    """The application's own `persist` raised, whatever it was: its item has failed, and nothing else has."""

    def __init__(self, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.error = error


async def _store(
    connection: Transaction, store_result: Callable[[Transaction], Awaitable[None]], seconds: float | None
) -> None:
    """Let the application store its rows; a database that is away, and a conflict, are told apart from its errors."""
    try:
        async with asyncio.timeout(seconds):
            await store_result(connection)
    except Exception as error:
        if isinstance(error, connect.AWAY) and (connection.is_closed() or sqlstate(error) is not None):
            raise
        raise _StoreRaised(error) from None


_WRITES: Final[dict[type, Any]] = {
    Ending: store.complete,
    Onward: store.advance,
    Back: store.requeue,
    Dead: store.fail,
}


def _of(end: End) -> Ending:
    return end if isinstance(end, Ending) else end.ending
