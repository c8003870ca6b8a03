"""The end of a home's text, and the renewal of the keys that protect it: an operator's two commands.

An erasure deletes the data key first: from that moment nobody can read what
was sealed, whatever becomes of the rest. Cancelling open work and clearing
providers follow in small steps, and a second call goes on where the first
one stopped. A rotation wraps data keys anew and touches no text; it goes from
home to home, so an interrupted one is simply run again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.apps.rewrite.envelope import EnvelopeBroken
from penstock.apps.rewrite.keyring import TextKeyMissing, Wrapped
from penstock.apps.rewrite.statements import sql

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from penstock.apps.rewrite.keyring import Keyring
    from penstock.store.claims import Db
    from penstock.store.connect import Record

AT_ONCE: Final = 100  # homes that one step of a rotation wraps anew, jobs that one step of an erasure cancels


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was done to a home. Batches are counted where a provider still has, or may have, files of theirs."""

    home_id: UUID
    erased_before: bool
    jobs_canceled: int
    batches: int
    files_due_now: int  # over: their files go with the next run of the collector
    batches_shared: int  # hold open items of other homes, run on, and lose their files when they are collected
    batches_canceled: int  # held nobody else's: their provider is asked to stop


async def erase_home(db: Db, home_id: UUID, *, who: str) -> Erasure | None:
    """Delete the data key of a home, end its open work and have its files deleted; None when there is no such home.

    Nothing can undo the first step. The others may be interrupted: a second
    call finds what is left.
    """
    first: bool | None = await db.fetchval(sql("erasure/forget"), home_id)
    if first is None:
        return None
    canceled = 0
    while count := int(await db.fetchval(sql("erasure/cancel"), home_id, who, AT_ONCE)):
        canceled += count
    row = await db.fetchrow(sql("erasure/files"), home_id)
    assert row is not None  # noqa: S101 - sums have one row
    return Erasure(home_id, not first, canceled, row["batches"], row["due_now"], row["shared"], row["canceled"])


@dataclass(slots=True)
class Rotation:
    """How far a rotation came."""

    rewrapped: int = 0
    left: int = 0  # somebody else wrapped them anew, or erased them, at the same moment
    missing: Counter[str] = field(default_factory=Counter)  # homes by the key that the settings lack
    broken: list[UUID] = field(default_factory=list)  # homes whose wrapping does not open

    @property
    def complete(self) -> bool:
        """Whether no home depends on an older key any more."""
        return not self.missing and not self.broken


async def rotate(db: Db, keyring: Keyring, *, told: Callable[[Rotation], object] = lambda _: None) -> Rotation:
    """Wrap the data key of every home by the first key of the settings, a set at a time.

    A home whose key cannot be opened is counted and left as it is; the others
    go on. Run it again after an interruption: what is done is not done twice.
    """
    rotation, after = Rotation(), None
    while rows := await db.fetch(sql("keys/to_rewrap"), keyring.first, after, AT_ONCE):
        after = rows[-1]["home_id"]
        anew = [(row, wrapped) for row in rows if (wrapped := _rewrapped(keyring, row, rotation)) is not None]
        done = await db.fetch(
            sql("keys/rewrap"),
            [row["home_id"] for row, _ in anew],
            [row["wrapped_key"] for row, _ in anew],
            [wrapped.wrapped_key for _, wrapped in anew],
            keyring.first,
        )
        rotation.rewrapped += len(done)
        rotation.left += len(anew) - len(done)
        told(rotation)
    return rotation


def _rewrapped(keyring: Keyring, row: Record, rotation: Rotation) -> Wrapped | None:
    try:
        return keyring.rewrap(row["home_id"], Wrapped(row["key_id"], row["wrapped_key"]))
    except TextKeyMissing as error:
        rotation.missing[error.key_id] += 1
    except EnvelopeBroken as error:
        rotation.broken.append(error.home_id)
    return None


@dataclass(frozen=True, slots=True)
class KeyUse:
    """One key: whether the settings hold it, and how many homes depend on it."""

    key_id: str
    in_settings: bool
    in_use: bool  # the one that wraps
    homes: int
    last_rewrapped_at: datetime | None


async def key_usage(db: Db, keyring: Keyring) -> list[KeyUse]:
    """Every key that the settings hold or that a home depends on."""
    found = {row["key_id"]: row for row in await db.fetch(sql("keys/usage"))}
    identities = [*keyring.key_ids, *sorted(set(found) - set(keyring.key_ids))]
    return [_use(identity, keyring, found.get(identity)) for identity in identities]


def _use(identity: str, keyring: Keyring, row: Record | None) -> KeyUse:
    homes, at = (row["homes"], row["last_rewrapped_at"]) if row is not None else (0, None)
    return KeyUse(identity, identity in keyring.key_ids, identity == keyring.first, homes, at)
