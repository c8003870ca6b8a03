"""From a caller's arguments to jobs that the database will take.

Everything that can be wrong with them is refused here, before a connection is
touched: a transaction of the caller survives a refusal unharmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import ArgumentsInvalid, EnqueueRefused, PayloadRejected, UnknownType
from penstock.contract.keys import checked_key, now_ms, stored_key, uuid7, uuid7_many
from penstock.contract.payloads import encode
from penstock.contract.policies import LARGEST_SMALLINT, MOST, NAME
from penstock.engine.registry import JobType
from penstock.store.puts import NewJob, NewJobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from uuid import UUID

    from penstock.engine.registry import Registry
    from penstock.settings import Settings

FURTHEST: Final = timedelta(days=3660)  # what is due later than this is a mistake
SET_JOBS: Final = 5000  # per statement of a bulk enqueue: the server writes one set while the next one is encoded
LARGEST_SHOWN: Final = 64  # bits of a number in a refusal
BREATH_JOBS: Final = 500  # after so many of them the event loop of the caller gets its turn
SET_BYTES: Final = 4_000_000  # or so many characters of payload


@dataclass(frozen=True, slots=True)
class When:
    """Due time and priority, checked."""

    run_at: datetime | None
    delay: timedelta | None
    priority: int | None


NOW: Final = When(None, None, None)


class Drafts:
    """Makes jobs from arguments, by the rules of the types that this application declares."""

    def __init__(self, types: Registry, settings: Settings) -> None:
        self._types = types
        self._max_bytes = settings.payload_max_bytes
        self._max_depth = settings.payload_max_depth

    def one(
        self,
        job_type: str | JobType,
        payload: Any,
        *,
        key: str | None,
        limit_key: str | None,
        when: When,
        attempts: int | None = None,
    ) -> NewJob:
        """One job, or a refusal."""
        name, declared = self._type(job_type)
        return NewJob(
            name,
            self._text(payload, declared),
            uuid7(),
            None if key is None else stored_key(name, key),
            when.run_at,
            when.delay,
            when.priority,
            None if limit_key is None else checked_key("a limit key", limit_key),
            None if attempts is None else _attempts(attempts),
        )

    def many(
        self,
        job_type: str | JobType,
        payloads: Iterable[Any],
        *,
        keys: Sequence[str | None] | None,
        limit_keys: Sequence[str | None] | None,
        when: When,
    ) -> Bulk:
        """Many jobs of one type; their payloads are encoded when they are asked for."""
        name, declared = self._type(job_type)
        if isinstance(payloads, str | bytes | Mapping):
            raise EnqueueRefused(f"payloads is one {type(payloads).__name__}; give a list with one payload per job")
        given = list(payloads)
        stored = _each("keys", keys, len(given), lambda key: stored_key(name, key))
        limits = _each("limit_keys", limit_keys, len(given), lambda key: checked_key("a limit key", key))
        return Bulk(self, name, declared, given, stored, limits, when)

    def text(self, payload: Any, declared: JobType | None) -> str:
        """The JSON text of *payload*, within the limits and readable for the handlers of its type."""
        return self._text(payload, declared)

    def _type(self, job_type: str | JobType) -> tuple[str, JobType | None]:
        if isinstance(job_type, JobType):
            return job_type.name, job_type
        if not isinstance(job_type, str):
            raise EnqueueRefused(f"a job type is its name or what @app.job(...) made, not {type(job_type).__name__}")
        if job_type in self._types:
            return job_type, self._types.get(job_type)
        if not NAME.fullmatch(job_type):
            raise UnknownType(job_type)
        return job_type, None

    def _text(self, payload: Any, declared: JobType | None) -> str:
        text = encode(
            {} if payload is None else payload,
            max_bytes=self._max_bytes if declared is None else declared.policy.max_payload_bytes,
            max_depth=self._max_depth,
        )
        if declared is None:
            return text
        try:
            declared.check(text)
        except ArgumentsInvalid as error:
            problem = str(error)
        else:
            return text
        raise PayloadRejected(f"{problem}; nothing was enqueued")


class Bulk:
    """Jobs of one type on their way in, and the ids they will have."""

    def __init__(
        self,
        drafts: Drafts,
        job_type: str,
        declared: JobType | None,
        payloads: list[Any],
        keys: list[str | None] | None,
        limit_keys: list[str | None] | None,
        when: When,
    ) -> None:
        self.job_type = job_type
        self._drafts = drafts
        self._declared = declared
        self._payloads = payloads
        self._keys = keys
        self._limit_keys = limit_keys
        self._when = when
        self._ids: list[UUID] = []
        self._stamp = now_ms()

    def __len__(self) -> int:
        return len(self._payloads)

    def sets(self) -> Iterator[NewJobs]:
        """Sets of at most SET_JOBS; asked for again, the same jobs come again."""
        return (part for part in self.breathing_sets() if part is not None)

    def breathing_sets(self) -> Iterator[NewJobs | None]:
        """The same, with a None now and then while a set is being encoded: time to let others run."""
        start, texts, size = 0, [], 0
        for payload in self._payloads:
            text = self._drafts.text(payload, self._declared)
            texts.append(text)
            size += len(text)
            if len(texts) >= SET_JOBS or size >= SET_BYTES:
                yield self._set(start, texts)
                start, texts, size = start + len(texts), [], 0
            elif len(texts) % BREATH_JOBS == 0:
                yield None
        if texts:
            yield self._set(start, texts)

    def _set(self, start: int, texts: list[str]) -> NewJobs:
        part = slice(start, start + len(texts))
        missing = part.stop - len(self._ids)
        if missing > 0:  # not when the sets are asked for again: the same jobs keep their ids
            self._ids += uuid7_many(missing, first=len(self._ids), stamp=self._stamp)
        return NewJobs(
            self.job_type,
            self._ids[part],
            texts,
            None if self._keys is None else self._keys[part],
            self._when.run_at,
            self._when.delay,
            self._when.priority,
            None if self._limit_keys is None else self._limit_keys[part],
        )


def when(run_at: datetime | None, delay: timedelta | float | None, priority: int | None) -> When:
    """Check due time and priority. A delay goes to the database as it is, because only its clock counts (C-22)."""
    if run_at is None and delay is None and priority is None:
        return NOW
    if run_at is not None and delay is not None:
        raise EnqueueRefused("give run_at or delay, not both")
    return When(
        None if run_at is None else _run_at(run_at),
        None if delay is None else _delay(delay),
        None if priority is None else _priority(priority),
    )


def _run_at(run_at: datetime) -> datetime:
    if not isinstance(run_at, datetime):
        raise EnqueueRefused(f"run_at is an aware datetime, not {type(run_at).__name__}")
    if run_at.utcoffset() is None:
        raise EnqueueRefused("run_at has no time zone; use an aware datetime, such as datetime.now(UTC)")
    if run_at - datetime.now(UTC) > FURTHEST:
        raise EnqueueRefused(
            f"run_at is {run_at.isoformat()}, more than {FURTHEST.days} days ahead; choose a nearer time"
        )
    return run_at


def _delay(delay: timedelta | float) -> timedelta:
    if isinstance(delay, int | float) and abs(delay) < timedelta.max.total_seconds():  # NaN is not either
        delay = timedelta(seconds=delay)
    if not isinstance(delay, timedelta):
        raise EnqueueRefused(f"delay is a timedelta or a number of seconds, not {_shown(delay)}")
    if delay < timedelta(0):
        raise EnqueueRefused(f"delay is negative ({delay}); leave it out to run at once")
    if delay > FURTHEST:
        raise EnqueueRefused(f"delay is {delay}, more than {FURTHEST.days} days; choose a shorter one")
    return delay


def _priority(priority: object) -> int:
    if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) > LARGEST_SMALLINT:
        raise EnqueueRefused(
            f"priority is a whole number between -{LARGEST_SMALLINT} and {LARGEST_SMALLINT}, not {_shown(priority)}; "
            "lower runs first"
        )
    return priority


def _attempts(attempts: object) -> int:
    if not isinstance(attempts, int) or isinstance(attempts, bool) or not 1 <= attempts <= MOST:
        raise EnqueueRefused(
            f"attempts is a whole number between 1 and {MOST}, not {_shown(attempts)}; "
            "it lowers the budget of this job and never raises it above its type's"
        )
    return attempts


def _shown(value: object) -> str:
    """A number as it is, anything else by its type: it could be a user's text."""
    if isinstance(value, int) and value.bit_length() > LARGEST_SHOWN:  # Python spells no number of any length
        return "a number of more than 64 bits"
    return repr(value)[:40] if isinstance(value, int | float) else type(value).__name__


def _each(what: str, given: Sequence[str | None] | None, count: int, checked: Any) -> list[str | None] | None:
    """One checked entry per payload; None when there is none at all, which is the quicker way in."""
    if given is None:
        return None
    if isinstance(given, str) or len(given) != count:
        raise EnqueueRefused(f"{what} has {len(given)} entries for {count} payloads; give one each, or None")
    entries = [None if entry is None else checked(entry) for entry in given]
    return entries if any(entry is not None for entry in entries) else None
