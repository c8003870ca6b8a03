"""One step on many dead letters, chosen by filter.

Each letter is a transaction of its own, so a crash in the middle leaves every
letter either done or untouched and the same command can be given again. A
letter that is refused is reported; the others go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.contract.dead_letters import BEFORE_REPLAY, LetterState
from penstock.contract.errors import NotFound, StepRefused
from penstock.engine import dead_letters, replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.contract.dead_letters import Cause
    from penstock.store.claims import Db
    from penstock.store.dead_letters import Filter

Progress = Callable[[int, int], None]  # handled so far, in all


@dataclass(slots=True)
class BulkReport:
    """What became of each letter."""

    done: list[UUID] = field(default_factory=list)
    refused: list[tuple[UUID, str]] = field(default_factory=list)

    @property
    def handled(self) -> int:
        """How many letters were looked at."""
        return len(self.done) + len(self.refused)


async def bulk_triage(
    db: Db, wanted: Filter, cause: Cause | str, *, operator: str, note: str = "", progress: Progress | None = None
) -> BulkReport:
    """Triage every open letter that matches."""
    cause, operator = dead_letters.known_cause(cause), dead_letters.operator_name(operator)
    return await _each(
        db, wanted, (LetterState.OPEN,),
        lambda one: dead_letters.triage(db, one, cause, operator=operator, note=note), progress,
    )  # fmt: skip


async def bulk_remediate(
    db: Db, wanted: Filter, action: str, *, operator: str, progress: Progress | None = None
) -> BulkReport:
    """Record the same remedy for every triaged letter that matches."""
    operator = dead_letters.operator_name(operator)
    return await _each(
        db, wanted, (LetterState.TRIAGED,),
        lambda one: dead_letters.remediate(db, one, action, operator=operator), progress,
    )  # fmt: skip


async def bulk_validate(
    db: Db, wanted: Filter, ticket: str, *, replay_safe: bool, operator: str, progress: Progress | None = None
) -> BulkReport:
    """Record the same ticket for every remediated letter that matches."""
    operator = dead_letters.operator_name(operator)
    return await _each(
        db, wanted, (LetterState.REMEDIATED,),
        lambda one: dead_letters.validate(db, one, ticket, replay_safe=replay_safe, operator=operator), progress,
    )  # fmt: skip


async def bulk_replay(
    db: Db, wanted: Filter, *, operator: str, full_restart: bool = False, notify: bool = True,
    progress: Progress | None = None,
) -> BulkReport:  # fmt: skip
    """Replay every letter that matches and may be replayed."""
    operator = dead_letters.operator_name(operator)
    return await _each(
        db, wanted, BEFORE_REPLAY,
        lambda one: replay.replay(db, one, operator=operator, full_restart=full_restart, notify=notify), progress,
    )  # fmt: skip


async def bulk_close(
    db: Db, wanted: Filter, notes: str, *, operator: str, without_replay: bool = False,
    delivery_verified: bool = False, progress: Progress | None = None,
) -> BulkReport:  # fmt: skip
    """Close every letter that matches and whose replay is completed; or give all of them up *without_replay*."""
    operator = dead_letters.operator_name(operator)
    return await _each(
        db, wanted, BEFORE_REPLAY if without_replay else (LetterState.REPLAYING,),
        lambda one: dead_letters.close(
            db, one, notes, operator=operator, without_replay=without_replay, delivery_verified=delivery_verified
        ), progress,
    )  # fmt: skip


async def _each(
    db: Db,
    wanted: Filter,
    states: Sequence[LetterState],
    step: Callable[[UUID], Awaitable[object]],
    progress: Progress | None,
) -> BulkReport:
    """Take *step* on each letter; a filter that names no state means those where the step is due."""
    chosen = wanted if wanted.states else replace(wanted, states=states)
    ids = await dead_letters.find_ids(db, chosen)
    report = BulkReport()
    for dead_letter_id in ids:
        try:
            await step(dead_letter_id)
        except (StepRefused, NotFound) as error:
            report.refused.append((dead_letter_id, str(error)))
        else:
            report.done.append(dead_letter_id)
        if progress is not None:
            progress(report.handled, len(ids))
    return report
