"""What Gemini says about a batch, read without trusting it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from penstock.providers.answers import word
from penstock.providers.failing import Unreadable
from penstock.providers.port import BatchState, Created, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.genai import types

# The SDK's own set of ended states leaves out the partly succeeded.
PHASES: Final[Mapping[str, Phase]] = {
    "JOB_STATE_QUEUED": Phase.RUNNING,
    "JOB_STATE_PENDING": Phase.RUNNING,
    "JOB_STATE_RUNNING": Phase.RUNNING,
    "JOB_STATE_PAUSED": Phase.RUNNING,
    "JOB_STATE_UPDATING": Phase.RUNNING,
    "JOB_STATE_CANCELLING": Phase.RUNNING,
    "JOB_STATE_SUCCEEDED": Phase.COMPLETED,
    "JOB_STATE_PARTIALLY_SUCCEEDED": Phase.COMPLETED,
    "JOB_STATE_FAILED": Phase.FAILED,
    "JOB_STATE_CANCELLED": Phase.CANCELLED,
    "JOB_STATE_EXPIRED": Phase.EXPIRED,
}
WINDOW: Final = timedelta(hours=48)


def state(job: types.BatchJob) -> BatchState:
    """Where it stands; a state nobody has heard of counts as still running."""
    said = str(getattr(job.state, "value", job.state)).replace("BATCH_STATE_", "JOB_STATE_")  # not all are mapped
    name = word(job.name)
    if not name:
        raise Unreadable
    return BatchState(
        provider_batch_id=name,
        phase=PHASES.get(said, Phase.RUNNING),
        provider_status=said if said in PHASES else "unknown",
        expires_at=_aware(job.create_time) + WINDOW if job.create_time else None,
        output_file_id=(word(job.dest.file_name) or None) if job.dest else None,
    )


def created(job: types.BatchJob, input_file_id: str | None) -> Created:
    """A batch that the provider has."""
    known = state(job)
    return Created(
        provider_batch_id=known.provider_batch_id,
        input_file_id=input_file_id,
        created_at=_aware(job.create_time) if job.create_time else None,
        expires_at=known.expires_at,
        ended=known.phase is not Phase.RUNNING,
        cancelled=known.provider_status in ("JOB_STATE_CANCELLING", "JOB_STATE_CANCELLED"),
    )


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
