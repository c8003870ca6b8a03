"""Enqueueing inside a caller's transaction: the statement in it, the poke after it where that can be seen (C-27)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.engine import owned
from penstock.settings import Notify
from penstock.store import drivers, puts
from penstock.store.drivers import Commits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from penstock.store.puts import NewJob, NewJobs


@dataclass(frozen=True, slots=True)
class Poking:
    """When the poke for a caller's job goes out, and what sends it; without a sender it goes with the commit."""

    notify: Notify
    send: Callable[[str | None, str], None] | None
    speak: Callable[[str, str, drivers.Voice], bool] | None = None  # through the connection that has committed

    def inside(self, commits: Commits) -> bool:
        """Whether the poke is part of the caller's transaction, because nobody would see it commit.

        Never of one in two phases, which could then not be prepared: where
        nobody sees that one commit, the poll finds the job.
        """
        if commits in (Commits.PREPARED, Commits.SEEN_PREPARED):
            return False
        if self.notify is Notify.AFTER_COMMIT:
            return commits is Commits.UNSEEN or self.send is None
        return self.notify is Notify.IN_TRANSACTION

    def outside(
        self, caller: drivers.Caller | drivers.AsyncCaller, commits: Commits, channel: str, job_type: str
    ) -> None:
        """Send the poke now, or have it sent after the commit."""
        send = self.send
        if send is None or self.notify is not Notify.AFTER_COMMIT:
            return
        if commits is Commits.AT_ONCE:
            send(channel, job_type)
        elif commits in (Commits.SEEN, Commits.SEEN_PREPARED):
            caller.after_commit(lambda voice: self._committed(voice, channel, job_type))

    def _committed(self, voice: drivers.Voice | None, channel: str, job_type: str) -> None:
        """The first poke after a pause goes by the connection that is awake already; the rest go together, later."""
        said = False
        try:
            said = voice is not None and self.speak is not None and self.speak(channel, job_type, voice)
        finally:  # also when the caller was cancelled meanwhile: the job is committed
            if not said and self.send is not None:
                self.send(channel, job_type)


async def put(connection: Any, job: NewJob, poking: Poking) -> UUID:
    """Put one job in on *connection*; a refusal leaves its transaction good."""
    caller = _async_caller(connection)
    commits = caller.commits
    row = await _row(caller, puts.ONE, job.arguments(poking.inside(commits)), job.job_type)
    found = puts.answer(row, job.job_type)
    if found.channel is not None:
        poking.outside(caller, commits, found.channel, job.job_type)
    return found.job_id


async def put_many(connection: Any, sets: Sequence[NewJobs], poking: Poking) -> list[UUID]:
    """Put many jobs in on *connection*, all or none: a refusal goes back to a savepoint."""
    caller = _async_caller(connection)
    commits = caller.commits
    found = Answers()
    async with caller.savepoint():
        for jobs in sets:
            row = await _row(caller, puts.MANY, jobs.arguments(poking.inside(commits)), jobs.job_type)
            found.add(puts.answer_many(row, jobs))
    if found.channel is not None:
        poking.outside(caller, commits, found.channel, sets[0].job_type)
    return found.job_ids


def put_sync(connection: Any, job: NewJob, poking: Poking) -> UUID:
    """`put` for a sync connection."""
    caller = drivers.recognise(connection)
    commits = caller.commits
    row = _row_sync(caller, puts.ONE, job.arguments(poking.inside(commits)), job.job_type)
    found = puts.answer(row, job.job_type)
    if found.channel is not None:
        poking.outside(caller, commits, found.channel, job.job_type)
    return found.job_id


def put_many_sync(connection: Any, sets: Sequence[NewJobs], poking: Poking) -> list[UUID]:
    """`put_many` for a sync connection."""
    caller = drivers.recognise(connection)
    commits = caller.commits
    found = Answers()
    with caller.savepoint():
        for jobs in sets:
            row = _row_sync(caller, puts.MANY, jobs.arguments(poking.inside(commits)), jobs.job_type)
            found.add(puts.answer_many(row, jobs))
    if found.channel is not None:
        poking.outside(caller, commits, found.channel, sets[0].job_type)
    return found.job_ids


class Answers:
    """What the sets of one bulk came to."""

    def __init__(self) -> None:
        self.job_ids: list[UUID] = []
        self.channel: str | None = None

    def add(self, put: puts.PutMany) -> None:
        """Take in the answer for one set."""
        self.job_ids.extend(put.job_ids)
        self.channel = put.channel or self.channel


class OwnedCaller:
    """A connection in a transaction that the engine commits itself: it sees the commit."""

    commits = Commits.SEEN

    def __init__(self, caller: drivers.AsyncCaller, transaction: owned.Owned) -> None:
        self.row = caller.row
        self.savepoint = caller.savepoint
        self._transaction = transaction

    def after_commit(self, call: Callable[[drivers.Voice | None], None]) -> None:
        """Once the engine's COMMIT has been answered."""
        self._transaction.after.append(lambda: call(None))


def _async_caller(connection: Any) -> drivers.AsyncCaller:
    caller = drivers.recognise_async(connection)
    transaction = owned.open_on(connection)
    return caller if transaction is None else OwnedCaller(caller, transaction)


async def _row(caller: drivers.AsyncCaller, name: str, arguments: Sequence[Any], job_type: str) -> Sequence[Any]:
    """Run a statement; what the driver raises is translated, and raised where its text is no context."""
    try:
        return await caller.row(name, arguments)
    except Exception as error:  # each driver has a tree of its own
        raised = puts.refusal(error, job_type)
    raise raised


def _row_sync(caller: drivers.Caller, name: str, arguments: Sequence[Any], job_type: str) -> Sequence[Any]:
    try:
        return caller.row(name, arguments)
    except Exception as error:  # each driver has a tree of its own
        raised = puts.refusal(error, job_type)
    raise raised
