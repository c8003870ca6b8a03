"""What an adapter for a caller's connection offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from enum import Enum, auto
from typing import Any, Protocol

Voice = Callable[[str], bool]  # whether the statement has been run


class Commits(Enum):
    """Who sees the commit of what a caller's connection writes."""

    AT_ONCE = auto()  # no transaction is open: each statement commits when it returns
    SEEN = auto()  # a hook tells when the root transaction has ended committed
    UNSEEN = auto()  # the caller commits where nobody is told
    PREPARED = auto()  # so too, in two phases: what has sent a NOTIFY cannot be prepared
    SEEN_PREPARED = auto()  # in two phases, and a hook tells


class Caller(Protocol):
    """A sync caller's connection."""

    @property
    def commits(self) -> Commits:
        """Who sees what is written now being committed."""

    def row(self, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run the statement *name* and return its one row."""

    def savepoint(self) -> AbstractContextManager[Any]:
        """What is written in the block is undone as a whole if the block raises; the transaction lives on."""

    def after_commit(self, call: Callable[[Voice | None], None]) -> None:
        """Do *call* once the root transaction has ended committed; only where commits are SEEN.

        It is told how to run a statement on the very connection that has
        committed, or None where that cannot be done.
        """


class AsyncCaller(Protocol):
    """An async caller's connection."""

    @property
    def commits(self) -> Commits:
        """Who sees what is written now being committed."""

    async def row(self, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
        """See `Caller.row`."""

    def savepoint(self) -> AbstractAsyncContextManager[Any]:
        """See `Caller.savepoint`."""

    def after_commit(self, call: Callable[[Voice | None], None]) -> None:
        """See `Caller.after_commit`."""
