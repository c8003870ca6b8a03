"""The sanitized context of a failure: an allow-list, so that nothing gets in by accident (E-29, E-30)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from penstock.telemetry.masks import redact_text

_OPAQUE: Final = re.compile(r"[A-Za-z0-9_.:#-]{1,60}", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,49}", re.ASCII)
_MANY: Final = 20


def hashed(value: str) -> str:
    """A short hash that lets two records be compared and tells nothing else."""
    return "sha256:" + hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:12]


def hashed_recipient(recipient: str) -> str:
    """A recipient as shown outside the delivery table: trimmed, lower-cased, hashed (C-52)."""
    return hashed(recipient.strip().lower())


def opaque_id(value: object) -> str:
    """An id as it may be shown: kept when it is plainly an id, hashed when it could be anything else."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**15 else hashed(str(value))
    text = str(value) if isinstance(value, str) else repr(type(value).__name__)
    if _OPAQUE.fullmatch(text) and redact_text(text) == text:
        return text
    return hashed(text)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def _word(value: object) -> str | None:
    return str(value) if isinstance(value, str) and _WORD.fullmatch(value) and redact_text(value) == value else None


def _ids(value: object) -> dict[str, str] | None:
    if not isinstance(value, Mapping):
        return None
    return {name: opaque_id(one) for key, one in islice(value.items(), _MANY) if (name := _word(key)) is not None}


def _hash(value: object) -> str | None:
    return value[:16] if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{8,128}", value) else None


_ALLOWED: Final[Mapping[str, Callable[[object], object]]] = {
    "job_id": opaque_id,
    "run_id": opaque_id,
    "worker_id": opaque_id,
    "request_ids": _ids,
    "payload_ids": _ids,
    "payload_hash": _hash,
    "job_type": _word,
    "stage": _word,
    "error_class": _word,
    "upstream_code": _word,
    "upstream_status": _count,
    "attempt": _count,
    "attempt_count": _count,
    "max_attempts": _count,
    "reclaim_count": _count,
    "claim_seq": _count,
}


def sanitized_context(**facts: object) -> dict[str, object]:
    """What a dead letter may tell about its job: ids, stage, counts, codes and hashes.

    A fact under another name is left out, and so is a value that is not of its
    name's kind: this is written while something has already gone wrong, so it
    drops and never raises.
    """
    checked = {name: check(facts[name]) for name, check in _ALLOWED.items() if facts.get(name) is not None}
    return {name: value for name, value in checked.items() if value is not None}
