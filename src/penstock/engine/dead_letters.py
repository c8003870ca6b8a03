"""The operator's work on dead letters: triage, remediate, validate, close (E-33 to E-44).

Every step is taken under the letter's lock, so that two operators never take
the same one, and leaves its trace in the same statement. What an operator
writes goes through the redactor before it is stored (C-52).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.contract import dead_letters as rules
from penstock.contract.dead_letters import Cause, DeadLetter, LetterState
from penstock.contract.errors import StepRefused
from penstock.contract.texts import clean_text
from penstock.store import dead_letters as store
from penstock.store.dead_letters import Event, Filter, events, find, find_ids, get, of_job, summarize
from penstock.telemetry import events as log
from penstock.telemetry.redaction import redact_text

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.store.claims import Db

__all__ = [
    "Cause",
    "DeadLetter",
    "Event",
    "Filter",
    "LetterState",
    "close",
    "events",
    "find",
    "find_ids",
    "get",
    "of_job",
    "remediate",
    "summarize",
    "triage",
    "validate",
]

NAME_LIMIT: Final = 200


async def triage(db: Db, dead_letter_id: UUID, cause: Cause | str, *, operator: str, note: str = "") -> None:
    """Sort the cause into one of four; class, stage and attempts go into the trace as the operator saw them (E-34).

    A second triage begins the work anew and drops the evidence recorded since.
    """
    found, who = known_cause(cause), operator_name(operator)
    async with store.locked(db, dead_letter_id) as (tx, letter):
        rules.may_triage(letter)
        detail = {
            "cause": found,
            "error_class": letter.error_class,
            "stage": letter.stage,
            "attempts": letter.attempts,
            "reason": letter.reason,
            "note": redact_text(note),
        }
        await store.record(
            tx, letter, "triaged", who, detail,
            state=LetterState.TRIAGED, cause=found, remediation=None, ticket=None, replay_safe=None,
        )  # fmt: skip
    log.dead_letter_step(dead_letter_id, "triaged")


async def remediate(db: Db, dead_letter_id: UUID, action: str, *, operator: str) -> None:
    """Record what was done about the cause (E-35 to E-38)."""
    who = operator_name(operator)
    async with store.locked(db, dead_letter_id) as (tx, letter):
        rules.may_remediate(letter, action)
        done = redact_text(action.strip())
        await store.record(
            tx, letter, "remediated", who, {"cause": letter.cause, "action": done},
            state=LetterState.REMEDIATED, remediation=done,
        )  # fmt: skip
    log.dead_letter_step(dead_letter_id, "remediated")


async def validate(db: Db, dead_letter_id: UUID, ticket: str, *, replay_safe: bool, operator: str) -> None:
    """Record the ticket with the evidence, and that a replay does no harm (E-39, E-40)."""
    who = operator_name(operator)
    async with store.locked(db, dead_letter_id) as (tx, letter):
        rules.may_validate(letter, ticket, replay_safe=replay_safe)
        reference = clean_text(ticket.strip(), NAME_LIMIT)
        await store.record(
            tx, letter, "validated", who, {"ticket": reference, "replay_safe": True},
            state=LetterState.VALIDATED, ticket=reference, replay_safe=True,
        )  # fmt: skip
    log.dead_letter_step(dead_letter_id, "validated")


async def close(
    db: Db,
    dead_letter_id: UUID,
    notes: str,
    *,
    operator: str,
    without_replay: bool = False,
    delivery_verified: bool = False,
) -> None:
    """Resolve a dead letter whose replay is completed, with notes (E-43, E-44).

    *without_replay* gives the work up: nothing runs, and the trace says so.
    """
    who = operator_name(operator)
    async with store.locked(db, dead_letter_id) as (tx, letter):
        rules.may_close(letter, notes, without_replay=without_replay, delivery_verified=delivery_verified)
        written = redact_text(notes.strip())
        detail = {
            "notes": written,
            "replay_job_id": None if without_replay else str(letter.replay_job_id),
            "delivery_verified": delivery_verified,
        }
        step = "closed_without_replay" if without_replay else "closed"
        await store.record(tx, letter, step, who, detail, state=LetterState.RESOLVED, notes=written)
    log.dead_letter_step(dead_letter_id, step)


def operator_name(operator: str) -> str:
    """Who takes the step; nobody takes it namelessly."""
    if not operator.strip():
        raise StepRefused("say who takes this step: every one leaves the operator's name")
    return clean_text(operator.strip(), NAME_LIMIT)


def known_cause(cause: Cause | str) -> Cause:
    """One of the four causes."""
    try:
        return Cause(cause)
    except ValueError:
        raise StepRefused(f"no cause {str(cause)[:40]!r}; sort it into {', '.join(Cause)}") from None
