"""The keys of the settings, and the wrapping of data keys by them.

A data key is made once for its home and never changes; renewing the keys of
the settings wraps it anew and touches no text. The id of the wrapping key is
authenticated with it, so that a wrapping cannot be passed off as another's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag

from penstock.apps.rewrite.envelope import EnvelopeBroken, HomeKey, bound, seal, unseal
from penstock.contract.errors import SettingsInvalid
from penstock.contract.text_keys import KEY_BYTES, parse_text_keys, written

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from pydantic import SecretStr

    from penstock.settings import Settings

VARIABLE: Final = "PENSTOCK_TEXT_KEYS"
_LABEL: Final = b"penstock.rewrite.home_key"


class TextKeyMissing(SettingsInvalid):
    """A data key is wrapped by a key that the settings do not hold."""

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"{VARIABLE} does not hold the key {key_id!r}, which wraps the data key of a home; put it back behind "
            "the first one, and take it out only when `penstock rewrite keys status` shows no home for it"
        )
        self.key_id = key_id


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A data key as it is stored."""

    key_id: str
    wrapped_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys of the settings by id; the first one wraps, all of them unwrap."""

    _keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def from_settings(cls, settings: Settings) -> Keyring:
        """The keyring of *settings*; refused where they hold no key."""
        return cls.of(settings.text_keys)

    @classmethod
    def of(cls, keys: SecretStr | str | None) -> Keyring:
        """The keyring of one setting, `id:key,id:key`."""
        if keys is None:
            raise SettingsInvalid(
                f"{VARIABLE} is not set, and without a key no text can be stored; make one with "
                "`penstock rewrite keys new` and keep it where your other secrets are"
            )
        return cls(parse_text_keys(keys if isinstance(keys, str) else keys.get_secret_value()))

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Their ids, the one in use first."""
        return tuple(self._keys)

    @property
    def first(self) -> str:
        """The id of the key in use."""
        return self.key_ids[0]

    def new_home_key(self, home_id: UUID) -> tuple[HomeKey, Wrapped]:
        """A data key for a home that has none, and how to store it."""
        data_key = os.urandom(KEY_BYTES)
        return HomeKey(home_id, data_key), self._wrap(home_id, data_key)

    def unwrap(self, home_id: UUID, wrapped: Wrapped) -> HomeKey:
        """The data key of a home; a wrapping that does not open raises `EnvelopeBroken`."""
        return HomeKey(home_id, self._data_key(home_id, wrapped))

    def rewrap(self, home_id: UUID, wrapped: Wrapped) -> Wrapped:
        """The same data key, wrapped by the key in use."""
        return self._wrap(home_id, self._data_key(home_id, wrapped))

    def _wrap(self, home_id: UUID, data_key: bytes) -> Wrapped:
        return Wrapped(self.first, seal(self._keys[self.first], data_key, bound(_LABEL, home_id, self.first)))

    def _data_key(self, home_id: UUID, wrapped: Wrapped) -> bytes:
        key = self._keys.get(wrapped.key_id)
        if key is None:
            raise TextKeyMissing(wrapped.key_id)
        try:
            return unseal(key, wrapped.wrapped_key, bound(_LABEL, home_id, wrapped.key_id))
        except (InvalidTag, ValueError):
            pass
        raise EnvelopeBroken(home_id, "home_keys")


def new_key(identity: str) -> str:
    """A fresh key as the setting takes it: `id:key`."""
    pair = written(identity, os.urandom(KEY_BYTES))
    parse_text_keys(pair)
    return pair
