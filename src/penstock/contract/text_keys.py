"""The keys that protect stored text, as a setting writes them: `id:key,id:key`, the first one in use.

A key is 32 random bytes in base64. Its id is stored beside everything that it
wraps, so that keys can be renewed one after the other: put the new one in
front, re-wrap, then take the old one out.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_BYTES: Final = 32
MOST_KEYS: Final = 20
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,49}", re.ASCII)
_FORM: Final = (
    "must be id:key pairs such as 2026a:…, each key 32 bytes in base64; `penstock rewrite keys new` makes one"
)


def parse_text_keys(source: str) -> Mapping[str, bytes]:
    """The keys by id, in the order given. A refusal repeats nothing of *source*: all of it is secret."""
    pairs = [_pair(part.strip()) for part in source.split(",")]
    if len(pairs) > MOST_KEYS:
        raise SettingsInvalid(f"holds {len(pairs)} keys; re-wrap by the first, and take out those that nothing uses")
    if len({identity for identity, _ in pairs}) < len(pairs):
        raise SettingsInvalid("names one id twice; give every key an id of its own, and never use one again")
    if len({key for _, key in pairs}) < len(pairs):
        raise SettingsInvalid("holds one key twice under two ids; make a new one with `penstock rewrite keys new`")
    return dict(pairs)


def written(identity: str, key: bytes) -> str:
    """One pair as the setting takes it."""
    return f"{identity}:{base64.b64encode(key).decode()}"


def _pair(text: str) -> tuple[str, bytes]:
    identity, _, encoded = text.partition(":")
    try:
        key = base64.b64decode(encoded.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not _ID.fullmatch(identity) or len(key) != KEY_BYTES:
        raise SettingsInvalid(_FORM)
    if not any(key):
        raise SettingsInvalid("holds a key of zeros; make one with `penstock rewrite keys new`")
    return identity, key
