"""Where the live part of the ready index begins: a hint that keeps claims in constant time.

Claimed rows leave dead entries at the front of the index. While some other
transaction holds back vacuum, every claim would walk over all of them. So
each fetcher remembers the last row it took of each type and starts there.

It is only a hint. An enqueue in a long transaction commits behind it, and so
do requeues and promotions of other processes. It is dropped by a claim that
came back short, by anything this process puts back, and once a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.store.claims import START, Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.contract.claims import Claim

LIFETIME: Final = 1.0  # seconds that a job behind the mark may have to wait


class Marks:
    """One mark per type, with a common age."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        self._born = 0.0

    def of(self, types: Sequence[str], now: float) -> list[Mark]:
        """The marks to claim from at *now* (monotonic seconds)."""
        if now - self._born > LIFETIME:
            self._marks.clear()
            self._born = now
        return [self._marks.get(job_type, START) for job_type in types]

    def advance(self, claims: Iterable[Claim]) -> None:
        """Remember how far a full claim has come."""
        marks = self._marks
        for claim in claims:
            mark = Mark(claim.priority, claim.created_at, claim.job_id)
            if mark > marks.get(claim.job_type, START):
                marks[claim.job_type] = mark

    def drop(self) -> None:
        """Start from the beginning next time."""
        self._marks.clear()
