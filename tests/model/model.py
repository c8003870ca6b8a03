"""The engine as it should be, in plain Python: a dict of jobs and one method per statement of the store.

Time is whole minutes. The real clock runs on beneath the wound one, and no
example lasts a minute, so a span of n minutes is over exactly when the clock
has been wound by n.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LEASE: Final = 5  # minutes
EVER: Final = -(10**9)  # the clock is wound back as well
TERMINAL: Final = ("completed", "failed", "canceled")


@dataclass(frozen=True)
class Type:
    """What the model knows of a policy."""

    name: str
    attempts: int = 3
    stale_counts: bool = True
    max_reclaims: int = 5
    max_running: int | None = None
    audited: bool = False


@dataclass(frozen=True, order=True)
class Ticket:
    """A claim: number of the job, fence, owner. It may be out of date."""

    job: int
    fence: int
    worker: str


@dataclass
class Job:
    """One job as its row should be."""

    number: int
    type: Type
    priority: int
    created: int
    run_at: int
    key: str | None = None
    payload: int = 0
    status: str = "queued"
    ready: bool = True
    suspect: bool = False
    reserved: int = EVER  # a suspect is not to be had before
    attempts: int = 0
    reclaims: int = 0
    fence: int = 0
    owner: str | None = None
    expiry: int | None = None
    code: str | None = None
    moves: int = 1  # rows of its audit, its birth included
    replay_of: int | None = None

    def holds(self, ticket: Ticket, worker: str) -> bool:
        """Whether *ticket* in the hand of *worker* is the claim that owns the job."""
        return self.status == "processing" and (self.fence, self.owner) == (ticket.fence, worker)

    @property
    def waits(self) -> bool:
        """Whether it is queued and not ready: for its time to come, or to run alone."""
        return self.status == "queued" and not self.ready

    @property
    def waits_alone(self) -> bool:
        """Whether it waits to run alone."""
        return self.waits and self.suspect

    def move(self, status: str) -> None:
        """Change the status and leave a trace."""
        self.status = status
        self.expiry = None
        self.moves += 1


@dataclass
class Model:
    """All jobs, all types, and the time."""

    jobs: dict[int, Job] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    now: int = 0

    def copy(self) -> Model:
        """The same again, to go another way from here."""
        return Model({number: copy(job) for number, job in self.jobs.items()}, set(self.paused), self.now)

    def enqueue(
        self, job_type: Type, *, key: str | None = None, payload: int = 0, delay: int = 0, priority: int = 0
    ) -> Job | None:
        """Put a job in, or return the one that the key has; None: the key has another payload."""
        for known in self.jobs.values():
            if key is not None and (known.type, known.key) == (job_type, key):
                return known if known.payload == payload else None
        number = len(self.jobs)
        due = self.now + delay
        job = Job(number, job_type, priority, self.now, due, key, payload, ready=delay <= 0)
        self.jobs[number] = job
        return job

    def gated(self, job_type: Type) -> bool:
        """Whether the type is claimed under its lock."""
        return job_type.name in self.paused or job_type.max_running is not None

    def claimable(self, job_type: Type) -> list[int]:
        """Ready jobs of a type, in the order in which they must be claimed."""
        ready = [job for job in self.jobs.values() if job.type == job_type and job.status == "queued" and job.ready]
        return [job.number for job in sorted(ready, key=lambda job: (job.priority, job.created, job.number))]

    def room(self, job_type: Type, limit: int, beside: str | None = None) -> int:
        """How many jobs of a type may be claimed, when *beside* runs none."""
        if job_type.name in self.paused:
            return 0
        if job_type.max_running is None:
            return limit
        running = sum(
            job.type == job_type and job.status == "processing" and job.owner != beside for job in self.jobs.values()
        )
        return max(0, min(limit, job_type.max_running - running))

    def next_suspect(self, types: Iterable[Type], worker: str) -> list[int]:
        """The suspect that *worker* may run alone, if there is one: what it runs itself has ended by then."""
        due = [
            job
            for job in self.jobs.values()
            if job.type in types and job.waits_alone and job.reserved <= self.now and self.room(job.type, 1, worker)
        ]
        first = min(due, key=lambda job: (job.priority, job.created, job.number), default=None)
        return [] if first is None or not self.room(first.type, 1) else [first.number]

    def grant(self, numbers: Iterable[int], worker: str) -> list[Ticket]:
        """Give these jobs to *worker*."""
        return [self._grant(self.jobs[number], worker) for number in numbers]

    def _grant(self, job: Job, worker: str) -> Ticket:
        job.move("processing")
        job.fence += 1
        job.owner = worker
        job.expiry = self.now + LEASE
        return Ticket(job.number, job.fence, worker)

    def complete(self, worker: str, tickets: Sequence[Ticket]) -> set[Ticket]:
        """End claims well; returns those that were lost. The same completion again is no loss."""
        lost = set()
        for ticket in tickets:
            job = self.jobs[ticket.job]
            if job.holds(ticket, worker):
                job.move("completed")
            elif (job.status, job.fence, job.owner) != ("completed", ticket.fence, worker):
                lost.add(ticket)
        return lost

    def finish(self, worker: str, ticket: Ticket) -> bool:
        """Complete one claim in a transaction of its handler."""
        job = self.jobs[ticket.job]
        held = job.holds(ticket, worker)
        if held:
            job.move("completed")
        return held

    def requeue(
        self, worker: str, ticket: Ticket, *, delay: int, charged: bool, code: str | None, survived: bool = True
    ) -> bool:
        """Put a claim back; False: it was lost."""
        job = self.jobs[ticket.job]
        if not job.holds(ticket, worker):
            return False
        job.suspect = job.suspect and not survived
        self._back(job, delay)
        job.attempts += charged
        job.code = code or job.code
        return True

    def fail(self, worker: str, ticket: Ticket, code: str) -> bool:
        """End a claim for good; False: it was lost."""
        job = self.jobs[ticket.job]
        if not job.holds(ticket, worker):
            return False
        job.move("failed")
        job.attempts += 1
        job.code = code
        return True

    def renew(self, worker: str, ticket: Ticket) -> bool:
        """Extend a lease; False: it was lost."""
        job = self.jobs[ticket.job]
        held = job.holds(ticket, worker)
        if held:
            job.expiry = self.now + LEASE
        return held

    def give_up(self, worker: str, ticket: Ticket) -> bool:
        """The handler cancels its own job; False: it was lost."""
        job = self.jobs[ticket.job]
        held = job.holds(ticket, worker)
        if held:
            job.move("canceled")
            job.code = "CANCELED"
        return held

    def cancel(self, number: int) -> str:
        """An operator cancels; returns the status that the job has now."""
        job = self.jobs[number]
        if job.status not in TERMINAL:
            job.move("canceled")
            job.code = "CANCELED"
        return job.status

    def reap(self) -> dict[int, str]:
        """Return expired claims, or end their jobs; the outcome of each."""
        expired = [job for job in self.jobs.values() if job.expiry is not None and job.expiry <= self.now]
        return {job.number: self._expire(job) for job in expired}

    def _expire(self, job: Job) -> str:
        job.attempts += job.type.stale_counts
        spent = job.attempts >= job.type.attempts if job.type.stale_counts else job.reclaims >= job.type.max_reclaims
        job.reclaims += 1
        job.code = "LEASE_EXPIRED"
        if spent:
            job.move("failed")
            job.owner, job.ready, job.suspect = None, True, False
        else:
            job.suspect = True
            self._back(job, 0)
        return job.status

    def _back(self, job: Job, delay: int) -> None:
        job.move("queued")
        job.owner = None
        job.ready = delay <= 0 and not job.suspect
        job.reserved = self.now + delay if job.suspect and delay > 0 else EVER
        job.run_at = self.now + delay

    def promote(self, job_type: Type) -> int:
        """Make ready what has fallen due; returns how many."""
        due = [
            job
            for job in self.jobs.values()
            if job.type == job_type and job.waits and not job.suspect and job.run_at <= self.now
        ]
        for job in due:
            job.ready = True
        return len(due)

    def root(self, number: int) -> int:
        """The job whose dead letter *number* has or shares."""
        original = self.jobs[number].replay_of
        return number if original is None else original

    def letters(self) -> set[int]:
        """The jobs that have a dead letter: one for each that failed, shared with its replays."""
        return {self.root(job.number) for job in self.jobs.values() if job.status == "failed"}

    def replay(self, number: int) -> Job | None:
        """Begin a failed job again beside itself; None: it has not failed, or a replay runs or has succeeded."""
        root = self.root(number)
        replays = [job for job in self.jobs.values() if job.replay_of == root]
        if self.jobs[number].status != "failed" or (replays and replays[-1].status not in {"failed", "canceled"}):
            return None
        original = self.jobs[root]
        job = Job(len(self.jobs), original.type, original.priority, self.now, self.now, payload=original.payload)
        job.replay_of = root
        self.jobs[job.number] = job
        return job
