"""Keys, tokens and ids that are derived, so that everybody derives the same."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Final
from uuid import UUID, SafeUUID

from penstock.contract.errors import EnqueueRefused

MAX_KEY: Final = 400  # characters; leaves room for the type's name inside an index entry
_MILLISECOND: Final = 1_000_000
_new: Final = object.__new__
_set: Final = object.__setattr__
_UNKNOWN: Final = SafeUUID.unknown


def uuid7() -> UUID:
    """A time-ordered id: neighbours in time are neighbours in the index."""
    stamp = time.time_ns() // _MILLISECOND
    value = (stamp << 80) | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF000 << 64) | (7 << 76)
    value = value & ~(0xC000 << 48) | (0x8000 << 48)
    return _uuid(value)


def stored_key(job_type: str, key: str) -> str:
    """The key as stored, `<type>:<key>`: two types never answer for each other (C-65)."""
    return f"{job_type}:{checked_key('an idempotency key', key)}"


def checked_key(what: str, key: str) -> str:
    """*key*, if an index can hold it; the refusal says what is wrong and leaves the key out."""
    if not isinstance(key, str):
        raise EnqueueRefused(f"{what} is text, not {type(key).__name__}; convert it first")
    if not key or len(key) > MAX_KEY:
        raise EnqueueRefused(f"{what} has 1 to {MAX_KEY} characters, this one has {len(key)}")
    if "\x00" in key or not _storable(key):
        raise EnqueueRefused(f"{what} holds no NUL and no lone surrogate; this one does")
    return key


def token(*parts: object) -> str:
    """The deterministic token of an outside effect: sha256 of the canonical tuple (C-52, C-61)."""
    canonical = json.dumps([str(part) for part in parts], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def payload_hash(payload: str) -> str:
    """A short hash that tells payloads apart without showing them (E-29)."""
    return hashlib.sha256(payload.encode()).hexdigest()[:16]


def _storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def uuid7_many(count: int, *, first: int = 0, stamp: int | None = None) -> list[UUID]:
    """*count* ids that sort in the order in which they stand: a bulk enqueue keeps its order (Q-54).

    Made in parts, they keep it too: *first* is the place of the part's first
    id, and *stamp*, the time in milliseconds, is that of the first part.
    """
    stamp = now_ms() if stamp is None else stamp
    noise = os.urandom(6 * count)
    base = (stamp << 80) | (7 << 76) | (0x8 << 60)
    ids = []
    for n in range(count):
        # 26 bits of counter: 12 above the variant, 14 below it; 46 random bits behind them.
        place = first + n
        counter = ((place >> 14) << 64) | ((place & 0x3FFF) << 46)
        random = int.from_bytes(noise[6 * n : 6 * n + 6], "big") & ((1 << 46) - 1)
        ids.append(_uuid(base | counter | random))
    return ids


def _uuid(value: int) -> UUID:
    """What `UUID(int=value)` makes, without its checks, which cost more than the rest of the id."""
    made = _new(UUID)
    _set(made, "int", value)
    _set(made, "is_safe", _UNKNOWN)
    return made


def now_ms() -> int:
    """The time of this process in milliseconds; for ids only."""
    return time.time_ns() // _MILLISECOND
