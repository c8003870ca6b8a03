"""Putting jobs in: what goes to the database, what comes back, and what a refusal means.

The statements are the same for every driver. Nothing here runs one; see
`jobs` for our own connections and `drivers` for those of callers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from penstock.contract.errors import (
    EnqueueRefused,
    IdempotencyKeyReused,
    PayloadRejected,
    SchemaOutdated,
    UnknownType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

ONE: Final = "jobs/put"
PLAIN: Final = "jobs/put_plain"  # for a job without options, over connections of our own
MANY: Final = "jobs/put_many"
# What the caller's own retries are for: server away or busy, conflict, deadlock, transaction already failed. Their
# messages name relations and processes, never a row.
_PASSING: Final = ("08", "25", "40", "53", "55", "57", "58")
_NO_SCHEMA: Final = ("3F000", "42P01", "42883", "42703")
_NOT_STORABLE: Final = (
    PayloadRejected,
    "the payload holds text that PostgreSQL cannot store (NUL or a lone surrogate)",
)
_NOT_ENCODABLE: Final = (
    "the payload or a key holds text that the client_encoding of this connection cannot write; set it to UTF8"
)
_REFUSALS: Final[dict[str, tuple[type[EnqueueRefused], str]]] = {
    "PS012": (
        PayloadRejected,
        "the payload exceeds the max_payload_bytes of type '{job_type}'; store it in a table of yours, enqueue its id",
    ),
    "PS013": (EnqueueRefused, "the key is not one of type '{job_type}': a stored key begins with its type and a colon"),
    "42501": (
        EnqueueRefused,
        "this login may not enqueue '{job_type}'; use penstock_orchestrator, or the role that the type names",
    ),
    "22P05": _NOT_STORABLE,
    "22021": _NOT_STORABLE,
    "22P02": _NOT_STORABLE,
}
_UNEXPECTED: Final = (
    EnqueueRefused,
    "the database refused a job of type '{job_type}' with SQLSTATE {code}; the server's log says more",
)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be put in, its payload encoded and its key in stored form."""

    job_type: str
    payload: str
    job_id: UUID
    key: str | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    priority: int | None = None
    limit_key: str | None = None
    attempts: int | None = None  # a budget below the type's, for this job alone

    def arguments(self, poke: bool) -> tuple[Any, ...]:
        """What `sql/jobs/put.sql` takes, in order; *poke*: send the poke with the commit."""
        return (
            self.job_type,
            self.payload,
            self.key,
            None if self.run_at is None else self.run_at.isoformat(),
            None if self.delay is None else interval(self.delay),
            self.priority,
            self.limit_key,
            self.job_id,
            poke,
            self.attempts,
        )

    @property
    def plain(self) -> bool:
        """Whether nothing was asked for but the job itself."""
        return (
            self.key is None
            and self.run_at is None
            and self.delay is None
            and self.priority is None
            and self.limit_key is None
            and self.attempts is None
        )


@dataclass(frozen=True, slots=True)
class NewJobs:
    """A set of jobs of one type that goes in by one statement."""

    job_type: str
    job_ids: Sequence[UUID]
    payloads: Sequence[str]
    keys: Sequence[str | None] | None
    run_at: datetime | None
    delay: timedelta | None
    priority: int | None
    limit_keys: Sequence[str | None] | None

    def arguments(self, poke: bool) -> tuple[Any, ...]:
        """What `sql/jobs/put_many.sql` takes, in order."""
        return (
            self.job_type,
            self.job_ids,
            self.payloads,
            self.keys,
            None if self.run_at is None else self.run_at.isoformat(),
            None if self.delay is None else interval(self.delay),
            self.priority,
            self.limit_keys,
            poke,
        )


@dataclass(frozen=True, slots=True)
class Put:
    """What an enqueue came to: `created` is False when the key was known; `channel` is where a poke is due."""

    job_id: UUID
    created: bool
    channel: str | None


@dataclass(frozen=True, slots=True)
class PutMany:
    """What a bulk enqueue came to: an id for every row in order, and the transaction that wrote them."""

    job_ids: Sequence[UUID]
    channel: str | None
    transaction_id: str | None


def answer(row: Any, job_type: str) -> Put:
    """The answer of `put.sql`, a row of any driver; a refusal is raised, and the transaction is still good."""
    job_id, created, channel, refusal_code = row[0]
    if refusal_code is not None:
        raise refused(refusal_code, job_type)
    return Put(as_uuid(job_id), created == "true", channel)


def answer_many(row: Any, jobs: NewJobs) -> PutMany:
    """The answer of `put_many.sql`."""
    job_ids = jobs.job_ids if row[0] is None else [as_uuid(job_id) for job_id in row[0]]
    return PutMany(job_ids, row[2], row[3])


def interval(span: timedelta) -> str:
    """*span* in seconds: a day of an interval has 23 or 25 hours when the caller's time zone changes its clocks."""
    return f"{span.days * 86_400 + span.seconds}.{span.microseconds:06d} seconds"


def as_uuid(value: Any) -> UUID:
    """An id, whatever the caller's driver is set to make of one."""
    return value if isinstance(value, UUID) else UUID(str(value))


def refusal(error: BaseException, job_type: str) -> BaseException:
    """What to raise for *error* of any driver.

    Its own text is left out, because it may repeat the payload (rule 9 of the
    fault list). What a caller retries stays the driver's own error, so that
    the caller's retries recognise it.
    """
    if isinstance(getattr(error, "orig", error), UnicodeEncodeError):  # before anything was sent; it holds the text
        return PayloadRejected(_NOT_ENCODABLE)
    code = sqlstate(error)
    if code is None or code[:2] in _PASSING:
        return without_parameters(error)
    return refused(code, job_type)


def refused(code: str, job_type: str) -> Exception:
    """The Penstock error for an SQLSTATE."""
    if code == "PS010":
        return UnknownType(job_type)
    if code == "PS011":
        return IdempotencyKeyReused(job_type)
    if code in _NO_SCHEMA:
        return SchemaOutdated("the schema is missing or does not fit this Penstock; run `penstock migrate up`")
    kind, message = _REFUSALS.get(code, _UNEXPECTED)
    return kind(message.format(job_type=job_type, code=code))


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of an error of asyncpg, psycopg or SQLAlchemy; None when the server did not send it."""
    for source in (error, getattr(error, "orig", None)):
        for name in ("sqlstate", "pgcode"):
            code = getattr(source, name, None)
            if isinstance(code, str):
                return code
    return None


def without_parameters(error: BaseException) -> BaseException:
    """*error*, made to keep the statement's arguments to itself: SQLAlchemy shows them in its message."""
    if hasattr(error, "hide_parameters"):
        error.hide_parameters = True
    if getattr(error, "params", None) is not None:
        error.params = None  # type: ignore[attr-defined]  # SQLAlchemy's StatementError
    return error
