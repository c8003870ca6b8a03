"""A message as data, for a receiver that is a program: an event in the form that Standard Webhooks recommends."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.apps.review.messages.summary import Summary

TYPE: Final = "review.completed"


def data_of(told: Summary, written_at: datetime) -> dict[str, object]:
    """JSON values only, in a fixed order. Findings are those that people are shown; the counts are of all."""
    return {
        "type": TYPE,
        "timestamp": written_at.astimezone(UTC).isoformat(),
        "data": {
            "review_id": str(told.review_id),
            "changelist_id": told.changelist_id,
            "review_version": told.review_version,
            "label": told.label,
            "title": told.title,
            "author": told.author,
            "url": told.url,
            "outcome": told.outcome,
            "counts": {str(severity): count for severity, count in told.counts},
            "findings": [finding.model_dump(mode="json") for finding in told.findings],
            "findings_not_shown": told.more,
            "skipped": [{"file": file, "reason": reason} for file, reason in told.skipped],
            "skipped_not_shown": told.skipped_more,
            "remarks_left_out": told.dropped,
        },
    }
