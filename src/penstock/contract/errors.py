"""Every exception Penstock raises, in one tree.

PenstockError
├── SettingsInvalid            a setting is missing, absurd or contradicts another
│   └── CannotListen           an address cannot be listened on at this moment
├── DatabaseUnavailable        the server is away or refuses the login
│   ├── SchemaOutdated         the schema is missing or of another version
│   └── CommitInDoubt          somebody ended the wait of a COMMIT for its replica
├── NothingCommitted           a statement of the transaction had failed, so its COMMIT was a rollback
├── MigrationFailed            a migration could not be applied; the schema is as it was
├── UnsafeLogin                a worker was given a login that grants and row-level security do not bind
├── EnqueueRefused             nothing was written
│   ├── UnknownType            no such job type in penstock.types
│   ├── PayloadRejected        too large, too deep, or not storable as JSON
│   ├── IdempotencyKeyReused   the key is known with other arguments
│   ├── RecipientInvalid       nobody can be reached there, or the same one is named twice
│   └── RerunNotAllowed        a review of this changelist would need a versioned rerun
├── InputRefused               a value given to a command is none that the database can hold
├── ArgumentsInvalid           a stored payload does not fit the handler's arguments
├── IllegalMove                a status change that the state machine does not have
├── NotFound                   no such job, dead letter, run, schedule …
│   └── UnknownFunction        no function of this name is declared
├── StepRefused                an operator step out of order, or without its evidence
│   └── RunRefused             this login may not start a run
├── WorkerNameTaken            another live worker has this name
├── PartEnded                  a part of a worker has ended, so the worker ends as well
├── LeaseLost                  this claim no longer owns its job; the result is dropped
├── EffectUncertain            an outside effect may have happened and cannot be looked up
├── NotPerformed               raised by an effect's perform: it has certainly not happened
└── Outcome                    raised by a handler to say how its attempt ends
    ├── Failed                 fail with a class of the closed list
    ├── Snooze                 run again later; no attempt is used
    │   └── EffectBusy         another job has this effect in hand
    └── Cancel                 end as canceled

Messages name the value at fault and the next step. They never repeat a
payload: text that a user wrote stays in the tables of the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.contract.failure_tables import BY_CODE
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from penstock.contract.calls import Usage
    from penstock.contract.statuses import Move, Status


class PenstockError(Exception):
    """The root: catch this to catch all that Penstock raises on purpose."""


class SettingsInvalid(PenstockError):
    """A setting is missing, absurd, or contradicts another one."""


class CannotListen(SettingsInvalid):
    """An address cannot be listened on: another process has it, or it is not of this machine."""


class DatabaseUnavailable(PenstockError):
    """The server is away, refuses the login, or is too old."""


class SchemaOutdated(DatabaseUnavailable):
    """The schema is missing or not of the version that this code needs."""


class CommitInDoubt(DatabaseUnavailable):
    """The server said yes and warned: its replica may not have the job, and a failover would lose it."""

    def __init__(self) -> None:
        super().__init__(
            "somebody ended the server's wait for its replica, so the job is in here and may not be in there; "
            "when the replica is back, or has taken over, enqueue again with the same key"
        )


class NothingCommitted(PenstockError):
    """A statement of the transaction failed and its error was caught; the server then answers COMMIT with ROLLBACK."""

    def __init__(self) -> None:
        super().__init__(
            "nothing was committed: a statement in this transaction had failed, and its error was caught; "
            "put a savepoint (`async with tx.transaction()`) around what may fail, or let its error end the block"
        )


class MigrationFailed(PenstockError):
    """A migration could not be applied, and nothing of it was."""


class UnsafeLogin(PenstockError):
    """Grants and row-level security do not bind the login: a superuser, an owner, or a member of one."""


class EnqueueRefused(PenstockError):
    """The job was refused whole; nothing was written."""


class UnknownType(EnqueueRefused):
    """No job type of this name is registered."""

    def __init__(self, job_type: str) -> None:
        super().__init__(
            f"job type {job_type!r} is not registered; define it with @app.job({job_type!r}) "
            "and run `penstock types sync`, or start a worker that serves it"
        )
        self.job_type = job_type


class PayloadRejected(EnqueueRefused):
    """The payload cannot be stored; the message names the place and never the content."""


class IdempotencyKeyReused(EnqueueRefused):
    """The key is known, with other arguments."""

    def __init__(self, job_type: str) -> None:
        super().__init__(
            f"this idempotency key of type {job_type!r} was used before with other arguments; "
            "use a new key for new work, or the same arguments to get the existing job"
        )
        self.job_type = job_type


class RecipientInvalid(EnqueueRefused):
    """A recipient cannot be reached on its channel, or is named twice; the address is not repeated."""


class RerunNotAllowed(EnqueueRefused):
    """Only an explicit rerun with a higher version makes new work for a changelist (C-47)."""


class InputRefused(PenstockError):
    """A value given is out of range, or no text; the database never saw it, and it is not repeated."""


class ArgumentsInvalid(PenstockError):
    """A stored payload does not fit the arguments that the handler declares."""


class IllegalMove(PenstockError):
    """The state machine has no such move."""

    def __init__(self, status: Status, move: Move) -> None:
        super().__init__(f"a {status} job cannot {move}")
        self.status = status
        self.move = move


class NotFound(PenstockError):
    """No row of this id."""

    def __init__(self, what: str, identity: object) -> None:
        command = {"dead letter": "dead", "batch": "batches", "delivery": "deliveries", "review": "review"}.get(
            what, f"{what.replace(' ', '-')}s"
        )
        super().__init__(f"no {what} {identity}; `penstock {command} list` shows what is there")
        self.what = what
        self.identity = identity


class UnknownFunction(NotFound):
    """No function of this name is declared."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__("function", name)
        self.args = (f"there is no function {name!r}; this application has {', '.join(known) or 'none'}",)


class StepRefused(PenstockError):
    """An operator step was asked for out of order, or without its evidence."""


class RunRefused(StepRefused):
    """This login may not start a run (Q-47, Q-48)."""


class WorkerNameTaken(PenstockError):
    """Another live worker has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"worker name {name!r} belongs to a worker that is alive; choose another --name, "
            "or wait until its heartbeat is a minute old"
        )
        self.name = name


class PartEnded(PenstockError):
    """A part that a worker cannot go on without has ended by itself."""

    def __init__(self, part: str, how: str) -> None:
        super().__init__(
            f"the {part} of this process has ended ({how}), so the process ends as well: its claims run out and run "
            "again elsewhere; start it again, and look for part_ended in its log"
        )


class LeaseLost(PenstockError):
    """This claim no longer owns its job: what it was about to write is dropped."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"the lease of job {job_id} was lost; another claim owns it by now")
        self.job_id = job_id


class EffectUncertain(PenstockError):
    """An outside effect may have happened, and nothing can tell."""


class NotPerformed(PenstockError):
    """Raised by an effect's *perform*: the outside world has certainly not acted.

    Raise it from the error that says so (`raise NotPerformed from error`): the
    attempt fails with that error's class, and the next one performs without
    asking. Where it is not raised, a failed perform counts as in doubt.
    """


class Outcome(PenstockError):
    """Raised by a handler to say how its attempt ends."""


class Failed(Outcome):
    """Fail this attempt with a class of the closed list (C-50).

    Whether it is retried follows from the class and the type's policy. A
    provider's own code is kept if our table knows it: any other is text from
    outside. *usage*: what a call has used although its answer counts for
    nothing; it is paid for all the same. *why* is a sentence for whoever reads
    the dead letter: what was wrong and what to do, never a user's text.
    """

    def __init__(
        self,
        error_class: FailureClass,
        why: str = "",
        *,
        retry_after: timedelta | None = None,
        upstream_status: int | None = None,
        upstream_code: str | None = None,
        usage: Usage | None = None,
        expected: bool = False,
    ) -> None:
        error_class = _known(error_class)
        super().__init__(f"{error_class}: {why}" if why else str(error_class))
        self.error_class = error_class
        self.why = why
        self.retry_after = retry_after
        self.upstream_status = upstream_status
        self.upstream_code = upstream_code if upstream_code in BY_CODE else None
        self.usage = usage
        self.expected = expected

    def __reduce__(self) -> tuple[Any, ...]:
        """Its message is no failure class, so a copy is made from the class and the sentence."""
        return type(self), (self.error_class, self.why), self.__dict__


def _known(error_class: str) -> FailureClass:
    """The class by its word too; an unknown one is told here, not as a bug of the job that it was meant for."""
    try:
        return FailureClass(error_class)
    except ValueError:
        raise SettingsInvalid(
            f"Failed takes a class of the closed list, such as FailureClass.NOT_FOUND, not {error_class!r}; "
            "give your own words as its second argument"
        ) from None


class Snooze(Outcome):
    """Run this job again after *delay*; no attempt is used."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay


class EffectBusy(Snooze):
    """Another claim that is alive is performing this effect: the job comes back later, no attempt used."""


class Cancel(Outcome):
    """End this job as canceled; nothing of it is retried."""
