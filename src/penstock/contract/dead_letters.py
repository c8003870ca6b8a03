"""Dead letters and the five steps that lead out of them (E-33 to E-44, C-51).

    open → triaged → remediated → validated → replaying → resolved

A type whose policy has `steps_required` takes every step in this order; a
plain type may be replayed from any of the first four. Each rule below raises
`StepRefused`, which says what is missing, and otherwise says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import StepRefused
from penstock.contract.statuses import Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID


class LetterState(StrEnum):
    """How far the operator's work on a dead letter has come."""

    OPEN = "open"
    TRIAGED = "triaged"
    REMEDIATED = "remediated"
    VALIDATED = "validated"
    REPLAYING = "replaying"
    RESOLVED = "resolved"


class Cause(StrEnum):
    """What triage found (E-34)."""

    TRANSIENT = "transient"
    DATA = "data"
    AUTH_CONFIG = "auth_config"
    CODE_DEFECT = "code_defect"


REMEDIES: Final[Mapping[Cause, str]] = {
    Cause.TRANSIENT: "say how you know that the upstream has recovered and has capacity",  # E-35
    Cause.DATA: "say what was corrected in the source payload or its mapping",  # E-36
    Cause.AUTH_CONFIG: "say which credential, permission or endpoint was rotated or fixed",  # E-37
    Cause.CODE_DEFECT: "say which fix was deployed and that it was validated in staging",  # E-38
}

BEFORE_REPLAY: Final = (LetterState.OPEN, LetterState.TRIAGED, LetterState.REMEDIATED, LetterState.VALIDATED)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter, with the facts that decide about its next step."""

    dead_letter_id: UUID
    job_id: UUID  # the original; its replays share this row
    last_job_id: UUID  # the one that failed last: the original or a replay
    job_type: str
    stage: str
    error_class: str
    retryable: bool
    reason: str
    last_stack: str
    sanitized_context: Mapping[str, Any]
    attempts: int
    first_failure_at: datetime
    last_failure_at: datetime
    created_at: datetime
    state: LetterState
    cause: Cause | None
    remediation: str | None
    ticket: str | None
    replay_safe: bool | None
    replay_count: int
    replay_job_id: UUID | None
    escalated_at: datetime | None
    notes: str | None
    closed_at: datetime | None
    # From the type's policy; None when the type is not registered any more.
    replayable: bool | None
    steps_required: bool | None
    stages: tuple[str, ...] | None
    replay_status: Status | None  # of the newest replay
    has_job: bool
    open_effects: int  # outside effects that are neither done nor given up

    @property
    def replay_ended_without_effect(self) -> bool:
        """Whether the newest replay was canceled: it told nothing new, so the evidence still holds."""
        return self.state is LetterState.REPLAYING and self.replay_status in (Status.CANCELED, None)


def may_triage(letter: DeadLetter) -> None:
    """Triage begins the work, or begins it anew: evidence recorded after it is dropped."""
    if letter.state not in BEFORE_REPLAY:
        raise _refused(letter, "triage", f"it is {letter.state}")


def may_remediate(letter: DeadLetter, action: str) -> None:
    """A remedy needs a cause, and says what was done about it (E-35 to E-38)."""
    if letter.state not in (LetterState.TRIAGED, LetterState.REMEDIATED) or letter.cause is None:
        raise _refused(letter, "remediate", f"it is {letter.state}; {_next(letter)}")
    if not action.strip():
        raise _refused(letter, "remediate", f"the cause is {letter.cause}: {REMEDIES[letter.cause]}")


def may_validate(letter: DeadLetter, ticket: str, *, replay_safe: bool) -> None:
    """Before a replay the evidence stands in a ticket, and a second effect is ruled out (E-39, E-40)."""
    if letter.state not in (LetterState.REMEDIATED, LetterState.VALIDATED):
        raise _refused(letter, "validate", f"it is {letter.state}; {_next(letter)}")
    if not ticket.strip():
        raise _refused(letter, "validate", "name the ticket or incident that holds the evidence of the remedy")
    if not replay_safe:
        raise _refused(letter, "validate", "confirm that a replay is idempotent, or safe for duplicate effects")


def may_replay(letter: DeadLetter, *, full_restart: bool) -> None:
    """A replay starts once per dead letter and request, after the steps that the type's policy asks for (E-33)."""
    if letter.replayable is None:
        raise _refused(letter, "replay", f"type {letter.job_type!r} is not registered; start a worker that serves it")
    if not letter.replayable:
        raise _refused(
            letter, "replay", f"jobs of type {letter.job_type!r} are never replayed; new work needs a new request"
        )
    if not letter.has_job:
        raise _refused(letter, "replay", "its job is no longer there")
    _refuse_replay_by_state(letter)
    if not full_restart and letter.stage not in (letter.stages or ()):
        raise _refused(letter, "replay", f"the type has no stage {letter.stage!r} any more; ask for a full restart")


def _refuse_replay_by_state(letter: DeadLetter) -> None:
    if letter.state is LetterState.RESOLVED:
        raise _refused(letter, "replay", "it is resolved")
    if letter.state is LetterState.REPLAYING and not letter.replay_ended_without_effect:
        raise _refused(letter, "replay", f"job {letter.replay_job_id} replays it already and is {letter.replay_status}")
    if letter.steps_required and (
        letter.state not in (LetterState.VALIDATED, LetterState.REPLAYING)
        or not (letter.cause and letter.remediation and letter.ticket and letter.replay_safe)
    ):
        raise _refused(letter, "replay", f"it is {letter.state}; {_next(letter)}")


def may_close(letter: DeadLetter, notes: str, *, without_replay: bool, delivery_verified: bool) -> None:
    """Closing verifies the replay and its delivery, and leaves notes (E-43, E-44).

    Work that nobody wants any more is closed *without_replay*; a type that
    asks for the steps must have been triaged for that.
    """
    if letter.state is LetterState.RESOLVED:
        raise _refused(letter, "close", "it is resolved already")
    if not notes.strip():
        raise _refused(letter, "close", "write resolution notes")
    if without_replay:
        _refuse_giving_up(letter)
        return
    if letter.state is not LetterState.REPLAYING:
        raise _refused(letter, "close", f"it is {letter.state} and has no replay to verify; {_next(letter)}")
    if letter.replay_status is not Status.COMPLETED:
        raise _refused(letter, "close", f"its replay {letter.replay_job_id} is {letter.replay_status or 'gone'}")
    if letter.open_effects and not delivery_verified:
        raise _refused(
            letter,
            "close",
            f"{letter.open_effects} outside effects of its jobs are not settled; look at them and confirm the delivery",
        )


def _refuse_giving_up(letter: DeadLetter) -> None:
    if letter.state is LetterState.REPLAYING and not letter.replay_ended_without_effect:
        raise _refused(
            letter,
            "close",
            f"its replay {letter.replay_job_id} is {letter.replay_status}; cancel that, or close with it",
        )
    if letter.steps_required and letter.cause is None:
        raise _refused(letter, "close", f"it is {letter.state}; {_next(letter)}")


def may_retry(letter: DeadLetter) -> None:
    """A plain retry is for types without the five steps."""
    if letter.steps_required:
        raise StepRefused(
            f"jobs of type {letter.job_type!r} are not simply retried; work through dead letter "
            f"{letter.dead_letter_id}: triage, remediate, validate, replay, close"
        )


def _refused(letter: DeadLetter, step: str, why: str) -> StepRefused:
    return StepRefused(f"cannot {step} dead letter {letter.dead_letter_id}: {why}")


def _next(letter: DeadLetter) -> str:
    """The step that is missing next."""
    match letter.state:
        case LetterState.OPEN:
            return "triage it first: sort the cause into transient, data, auth_config or code_defect"
        case LetterState.TRIAGED:
            return f"remediate it first: {REMEDIES[letter.cause]}" if letter.cause else "triage it first"
        case LetterState.REMEDIATED:
            return "validate it first: a ticket reference, and the confirmation that a replay is safe"
        case LetterState.VALIDATED:
            return "replay it first" if letter.ticket and letter.replay_safe else "validate it first"
        case LetterState.REPLAYING:
            return f"its replay {letter.replay_job_id} is {letter.replay_status or 'gone'}"
        case LetterState.RESOLVED:
            return "nothing is left to do"
