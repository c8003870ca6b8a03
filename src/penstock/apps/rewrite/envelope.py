"""Text at rest: AES-256-GCM, one data key per home, bound to the row it stands in.

    version (1 byte) ‖ nonce (12 bytes) ‖ ciphertext ‖ tag (16 bytes)

The home and the place, such as `rewrite_requests/<id>`, are authenticated with
the text, so what was sealed for one row opens in no other. A random nonce is
safe for four thousand million texts under one key, and every home has its own.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.contract.errors import PenstockError

if TYPE_CHECKING:
    from uuid import UUID

VERSION: Final = 1
NONCE: Final = 12
TAG: Final = 16
_LABEL: Final = b"penstock.rewrite.text"
_FINGERPRINT: Final = b"penstock.rewrite.fingerprint"


class EnvelopeBroken(PenstockError):
    """Stored text does not open: altered, moved from another row or home, or sealed with another key."""

    def __init__(self, home_id: UUID, place: str) -> None:
        super().__init__(
            f"what is sealed at {place} of home {home_id} does not open: it was altered, moved there from another row, "
            "or sealed with another key; restore the row, or the key, from a backup"
        )
        self.home_id = home_id
        self.place = place


@dataclass(frozen=True, slots=True)
class HomeKey:
    """The data key of one home. Seals, opens, and tells texts apart; never shown, never logged."""

    home_id: UUID
    _key: bytes = field(repr=False)

    def seal(self, plaintext: bytes, *, place: str) -> bytes:
        """*plaintext* as it may be stored at *place*, and nowhere else."""
        return seal(self._key, plaintext, bound(_LABEL, self.home_id, place))

    def open(self, sealed: bytes, *, place: str) -> bytes:
        """What was sealed for *place*; anything else raises `EnvelopeBroken`, which holds no content."""
        try:
            return unseal(self._key, sealed, bound(_LABEL, self.home_id, place))
        except (InvalidTag, ValueError):
            pass
        raise EnvelopeBroken(self.home_id, place)  # outside, so that no other error hangs on to it

    def fingerprint(self, *parts: bytes) -> bytes:
        """Equal for equal *parts* of this home; says nothing about them to whoever lacks its key."""
        mac = hmac.new(hmac.digest(self._key, _FINGERPRINT, hashlib.sha256), digestmod=hashlib.sha256)
        for part in parts:
            mac.update(len(part).to_bytes(8, "big") + part)
        return mac.digest()


def seal(key: bytes, plaintext: bytes, bound_to: bytes) -> bytes:
    """An envelope around *plaintext*, with a nonce of its own."""
    nonce = os.urandom(NONCE)
    head = bytes([VERSION])
    return head + nonce + AESGCM(key).encrypt(nonce, plaintext, head + bound_to)


def unseal(key: bytes, sealed: bytes, bound_to: bytes) -> bytes:
    """What is in the envelope; `InvalidTag` or `ValueError` when it is not one of ours, whole, for this very place."""
    if len(sealed) < 1 + NONCE + TAG or sealed[0] != VERSION:
        raise ValueError("no envelope of this version")
    return AESGCM(key).decrypt(sealed[1 : 1 + NONCE], sealed[1 + NONCE :], sealed[:1] + bound_to)


def bound(label: bytes, home_id: UUID, place: str) -> bytes:
    """What an envelope is bound to; the parts have fixed lengths or stand last, so that no two places are the same."""
    return label + b"\0" + home_id.bytes + place.encode()
