"""Dead letters: finding them, locking one, and writing a step of the work on it.

Which step may be taken is decided above, with words for people, and by the
database, for every caller. A step and its trace are one function there, so
there is never one without the other.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from penstock.contract.dead_letters import Cause, DeadLetter, LetterState
from penstock.contract.errors import NotFound, StepRefused
from penstock.contract.statuses import Status
from penstock.store.statements import sql
from penstock.store.transactions import transaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.store.claims import Db, Transaction

STEP_REFUSED: Final = "PS020"
_COLUMNS: Final = tuple(column.name for column in fields(DeadLetter))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which dead letters are meant; an empty field means any."""

    job_types: Sequence[str] = ()
    error_classes: Sequence[str] = ()
    stages: Sequence[str] = ()
    states: Sequence[LetterState] = ()
    causes: Sequence[Cause] = ()
    escalated: bool | None = None
    older_than: timedelta | None = None  # since the last failure
    newer_than: timedelta | None = None
    limit: int | None = None

    def arguments(self) -> tuple[Any, ...]:
        """What `find.sql` takes, in order."""
        return (
            *(list(map(str, names)) or None for names in
              (self.job_types, self.error_classes, self.stages, self.states, self.causes)),
            self.escalated, self.older_than, self.newer_than, self.limit,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """A trace of one step: who did what, when."""

    at: datetime
    step: str
    operator: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Started:
    """A replay that was put in; `channel` is None when no poke is due."""

    job_id: UUID
    stage: str
    job_type: str
    channel: str | None


async def find(db: Db, wanted: Filter) -> list[DeadLetter]:
    """The dead letters that match, oldest first."""
    rows = await db.fetch(
        "select * from penstock.dead_letter_overview where dead_letter_id = any($1::uuid[]) order by dead_letter_id",
        await find_ids(db, wanted),
    )
    return [_letter(row) for row in rows]


async def find_ids(db: Db, wanted: Filter) -> list[UUID]:
    """Their ids alone, for work on many."""
    return [row[0] for row in await db.fetch(sql("dead_letters/find"), *wanted.arguments())]


async def summarize(db: Db) -> list[asyncpg.Record]:
    """How many letters wait, by type, stage, class and state."""
    return await db.fetch(sql("dead_letters/summarize"))


async def get(db: Db, dead_letter_id: UUID) -> DeadLetter:
    """One dead letter."""
    row = await db.fetchrow("select * from penstock.dead_letter_overview where dead_letter_id = $1", dead_letter_id)
    if row is None:
        raise NotFound("dead letter", dead_letter_id)
    return _letter(row)


async def of_job(db: Db, job_id: UUID) -> UUID | None:
    """The id of the dead letter that a job has or shares."""
    found: UUID | None = await db.fetchval(sql("dead_letters/of_job"), job_id)
    return found


async def events(db: Db, dead_letter_id: UUID) -> list[Event]:
    """Every step taken on a dead letter, oldest first."""
    rows = await db.fetch(
        "select at, step, operator, detail::text from penstock.dead_letter_events "
        "where dead_letter_id = $1 order by event_id",
        dead_letter_id,
    )
    return [Event(row["at"], row["step"], row["operator"], json.loads(row["detail"])) for row in rows]


@asynccontextmanager
async def locked(db: Db, dead_letter_id: UUID) -> AsyncIterator[tuple[Transaction, DeadLetter]]:
    """A transaction that holds the letter: of two operators one waits and then sees what the other did."""
    async with transaction(db) as tx:
        await tx.execute("select penstock.lock_dead_letter($1)", dead_letter_id)
        yield tx, await get(tx, dead_letter_id)


async def record(
    tx: Transaction, letter: DeadLetter, step: str, operator: str, detail: Mapping[str, Any], **changes: Any
) -> None:
    """Write *step* with its trace; *changes* are the fields it sets. The database looks at the step once more."""
    evidence = (changes.get(name) for name in ("cause", "remediation", "ticket", "replay_safe", "notes"))
    with _refusals():
        await tx.execute(sql("dead_letters/step"), letter.dead_letter_id, step, operator, json.dumps(detail), *evidence)


async def start_replay(
    tx: Transaction, letter: DeadLetter, job_id: UUID, *, full_restart: bool, operator: str
) -> Started:
    """Put in the replay of *letter* as *job_id*."""
    with _refusals():
        row = await tx.fetchrow(sql("dead_letters/replay"), letter.dead_letter_id, full_restart, job_id, operator)
    if row is None or row["job_id"] is None:
        raise NotFound("job", letter.job_id)
    return Started(*row)


@contextmanager
def _refusals() -> Iterator[None]:
    """A step that the database refuses, in the words of the rules above it."""
    try:
        yield
    except asyncpg.PostgresError as error:
        if error.sqlstate != STEP_REFUSED:
            raise
        raise StepRefused(str(error)) from None


def _letter(row: asyncpg.Record) -> DeadLetter:
    values = {name: row[name] for name in _COLUMNS}
    values["state"] = LetterState(values["state"])
    values["cause"] = values["cause"] and Cause(values["cause"])
    values["stages"] = values["stages"] and tuple(values["stages"])
    values["replay_status"] = values["replay_status"] and Status(values["replay_status"])
    values["sanitized_context"] = json.loads(values["sanitized_context"])
    return DeadLetter(**values)
