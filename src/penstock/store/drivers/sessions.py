"""What is to happen once the root transaction of a SQLAlchemy Session has committed.

`after_commit` alone would not do: it also fires when a savepoint is released,
and the transaction around it may still roll back. So what waits remembers how
deep in savepoints it was asked for. Releasing a savepoint hands it one level
up, rolling back drops it, and only the end of the root decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session, SessionTransaction

_INFO: Final = "penstock.after_commit"


def after_commit(session: Session, call: Callable[[], None]) -> None:
    """Do *call* when the root transaction of *session* has committed; a rollback of any part around it drops it."""
    waiting = session.info.get(_INFO)
    if waiting is None:
        waiting = session.info[_INFO] = Waiting()
        event.listen(session, "after_commit", waiting.committed)
        event.listen(session, "after_soft_rollback", waiting.rolled_back)
        event.listen(session, "after_transaction_end", waiting.ended)
    waiting.add(_depth(session.get_nested_transaction()), call)


class Waiting:
    """What waits for the commit of one session, with the depth in savepoints where it was asked for."""

    def __init__(self) -> None:
        self._calls: list[tuple[int, Callable[[], None]]] = []

    def add(self, depth: int, call: Callable[[], None]) -> None:
        """Remember *call*."""
        self._calls.append((depth, call))

    def committed(self, session: Session) -> None:
        """A savepoint was released, or the root has committed."""
        depth = _depth(session.get_nested_transaction())
        if depth:
            self._calls = [(min(at, depth - 1), call) for at, call in self._calls]
            return
        calls, self._calls = self._calls, []
        for _, call in calls:
            call()

    def rolled_back(self, _session: Session, transaction: SessionTransaction) -> None:
        """Back to a savepoint, or to the beginning."""
        depth = _depth(transaction)
        self._calls = [(at, call) for at, call in self._calls if at < depth]

    def ended(self, _session: Session, transaction: SessionTransaction) -> None:
        """A session that was closed without a commit rolls back and tells nobody else."""
        if transaction.parent is None:
            self._calls = []


def _depth(transaction: Any) -> int:
    """How many savepoints are open around and in *transaction*."""
    depth = 0
    while transaction is not None:
        depth += bool(transaction.nested)
        transaction = transaction.parent
    return depth
