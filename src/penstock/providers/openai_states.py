"""What OpenAI says about a batch, read without trusting it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.providers.answers import count, items, mapping, moment, word
from penstock.providers.failing import Unreadable, failure_of
from penstock.providers.port import BadLine, BatchState, Created, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

PHASES: Final[Mapping[str, Phase]] = {
    "validating": Phase.RUNNING,
    "in_progress": Phase.RUNNING,
    "finalizing": Phase.RUNNING,
    "cancelling": Phase.RUNNING,
    "completed": Phase.COMPLETED,
    "failed": Phase.FAILED,
    "expired": Phase.EXPIRED,
    "cancelled": Phase.CANCELLED,
}


def state(batch: Mapping[str, Any]) -> BatchState:
    """Where it stands; a state nobody has heard of counts as still running."""
    said = batch.get("status")
    status = said if isinstance(said, str) and said in PHASES else "unknown"
    phase = PHASES.get(status, Phase.RUNNING)
    counts = mapping(batch.get("request_counts"))
    return BatchState(
        provider_batch_id=_identity(batch),
        phase=phase,
        provider_status=status,
        expires_at=moment(batch.get("expires_at")),
        input_file_id=word(batch.get("input_file_id")) or None,
        output_file_id=word(batch.get("output_file_id")) or None,
        error_file_id=word(batch.get("error_file_id")) or None,
        total=count(counts.get("total")),
        completed=count(counts.get("completed")),
        failed=count(counts.get("failed")),
        bad_lines=_bad_lines(batch) if phase is Phase.FAILED else (),
    )


def _bad_lines(batch: Mapping[str, Any]) -> tuple[BadLine, ...]:
    """The lines that a refused batch names, from 0; an error that names none concerns them all."""
    named = []
    for error in items(mapping(batch.get("errors")).get("data")):
        line = error.get("line")
        index = line - 1 if isinstance(line, int) and line > 0 else None
        named.append(BadLine(index, failure_of(400, {"code": error.get("code"), "param": error.get("param")})))
    return tuple(named)


def created(batch: Mapping[str, Any]) -> Created:
    """A batch as a create or a list shows it."""
    seen = state(batch)
    return Created(
        provider_batch_id=seen.provider_batch_id,
        input_file_id=seen.input_file_id,
        created_at=moment(batch.get("created_at")),
        expires_at=seen.expires_at,
        ended=seen.phase is not Phase.RUNNING,
        cancelled=seen.provider_status in ("cancelling", "cancelled"),
    )


def _identity(batch: Mapping[str, Any]) -> str:
    identity = word(batch.get("id"))
    if not identity:
        raise Unreadable
    return identity


def token(batch: Mapping[str, Any]) -> str:
    """The token that it was created with; '' where it has none."""
    return word(mapping(batch.get("metadata")).get("submission_id"))
