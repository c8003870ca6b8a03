"""What a handler in a thread uses instead of `await`: each call is carried into the worker's event loop and back.

    with job.sync.transaction() as tx:       # commits together with the job's completion
        tx.execute("insert into ...", 1)
    job.sync.effect("mail", perform=send, settle=look_up)   # both run in the handler's own thread

A thread cannot be cancelled. When its job was stopped, the next call raises
`LeaseLost`, and so does the end of its transaction, which rolls back.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.contract.errors import LeaseLost
from penstock.engine.effects import decode_result
from penstock.store.effects import Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence

    from penstock.engine.effects import Effect, Found, Settled
    from penstock.engine.job import Job
    from penstock.store.claims import Transaction

T = TypeVar("T")


class SyncTransaction:
    """The connection of a `job.sync.transaction()`; the calls are those of asyncpg, and they block."""

    def __init__(self, bridge: Bridge, connection: Transaction) -> None:
        self._bridge = bridge
        self._connection = connection

    def execute(self, query: str, *arguments: Any) -> str:
        """Run a statement; returns its tag, as `INSERT 0 1`."""
        return self._bridge.call(self._connection.execute(query, *arguments))

    def executemany(self, query: str, arguments: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of arguments."""
        self._bridge.call(self._connection.executemany(query, arguments))

    def fetch(self, query: str, *arguments: Any) -> list[Any]:
        """All rows."""
        return self._bridge.call(self._connection.fetch(query, *arguments))

    def fetchrow(self, query: str, *arguments: Any) -> Any:
        """The first row, or None."""
        return self._bridge.call(self._connection.fetchrow(query, *arguments))

    def fetchval(self, query: str, *arguments: Any) -> Any:
        """The first value of the first row, or None."""
        return self._bridge.call(self._connection.fetchval(query, *arguments))


class Bridge:
    """Carries the calls of one handler in a thread into the loop that runs its worker."""

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self._job = job
        self._loop = loop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait in this thread for *work* in the loop; a job that was stopped meanwhile does nothing more."""
        if self._job.stopping:
            work.close()
            raise LeaseLost(self._job.job_id)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @contextmanager
    def transaction(self, result: Any = None) -> Iterator[SyncTransaction]:
        """`job.transaction()` for a thread."""
        block = self._job.transaction(result)
        connection = self.call(block.__aenter__())
        try:
            yield SyncTransaction(self, connection)
        except BaseException as error:
            self._leave(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._leave(block.__aexit__(None, None, None))

    def _leave(self, work: Coroutine[Any, Any, Any]) -> None:
        """Also for a job that was stopped: its connection must come back."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def effect(
        self,
        name: str,
        *,
        perform: Callable[[str], Any],
        settle: Callable[[str], Settled] | None = None,
        key: str | None = None,
        repeat_when_uncertain: bool = False,
    ) -> Any:
        """`job.effect()` for a thread."""
        with self._job.one_at_a_time(name, key) as effect:
            intent = self.call(effect.intend())
            if intent.standing is Standing.DONE:
                return decode_result(intent.result)
            if intent.standing is Standing.AGAIN:
                found = self._settle(effect, settle, repeat=repeat_when_uncertain)
                if found is not None:
                    return self.call(effect.mark(found.result))
            try:
                result = perform(effect.token)
            except Exception as error:
                self.call(effect.failed("perform", error))
                raise
            return self._marked(effect, result)

    def _marked(self, effect: Effect, result: Any) -> Any:
        """What has happened is marked, also when the job was stopped meanwhile."""
        return asyncio.run_coroutine_threadsafe(effect.mark(result), self._loop).result()

    def _settle(self, effect: Effect, settle: Callable[[str], Settled] | None, *, repeat: bool) -> Found | None:
        if settle is None:
            self.call(effect.unsettled(repeat=repeat))
            return None
        try:
            answer = settle(effect.token)
        except Exception as error:
            self.call(effect.failed("settle", error))
            raise
        return self.call(effect.settled(answer))
