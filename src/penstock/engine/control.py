"""Messages on the control channel: what each of them asks to look at.

Any login may send any text there. A message is read into words that we know,
or dropped; what is true is read from the tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

LONGEST: Final = 200  # characters; the longest of ours has 51
PAUSE: Final = 0.1  # seconds between two looks that messages cause, however many come


@dataclass(frozen=True, slots=True)
class Message:
    """What to look at."""

    cancel: UUID | None = None
    gates: bool = False
    alerts: bool = False
    schedules: bool = False


def read(payload: str) -> Message:
    """The message in *payload*; one that is not of our making asks for nothing."""
    found = loads(payload) if len(payload) <= LONGEST else {}
    return Message(_uuid(found.get("cancel")), "gates" in found, "alerts" in found, "schedules" in found)


def loads(payload: str) -> dict[str, Any]:
    """The JSON object in *payload*; an empty one for anything else."""
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None
