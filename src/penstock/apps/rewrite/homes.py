"""Homes, their members and what these wish: the orchestrator's, inside its transaction.

Every function enters the home that it is given, so a caller who has not done
so, or has worked for another home before, sees and writes the right rows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.apps.rewrite.keyring import Wrapped
from penstock.apps.rewrite.locales import LONGEST_TAG
from penstock.apps.rewrite.models import PreferencesV1
from penstock.apps.rewrite.statements import sql
from penstock.contract.errors import PenstockError, SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from penstock.apps.rewrite.envelope import HomeKey
    from penstock.apps.rewrite.keyring import Keyring
    from penstock.store.claims import Transaction


class HomeErased(PenstockError):
    """The home has no data key: it was erased, or nothing was ever stored for it."""

    def __init__(self, home_id: UUID) -> None:
        super().__init__(f"home {home_id} has no data key: it was erased, or is unknown; its text cannot be read")
        self.home_id = home_id


async def enter_home(connection: Transaction, home_id: UUID) -> None:
    """Work for *home_id* until the transaction ends: row-level security shows no other home.

    Refused outside a transaction, where it would be forgotten at once.
    """
    if not connection.is_in_transaction():
        raise SettingsInvalid("a home is entered inside a transaction; open one with connection.transaction()")
    await connection.execute(sql("homes/enter"), home_id)


async def home_key(connection: Transaction, keyring: Keyring, home_id: UUID, *, create: bool = False) -> HomeKey:
    """The data key of a home; with *create* one is made for a home that has none yet.

    Two who make it at once get the same: the first one stands. An erased home
    raises `HomeErased` either way.
    """
    await enter_home(connection, home_id)
    row = await connection.fetchrow(sql("keys/read"), home_id)
    if row is None and create and await _living(connection, home_id):
        made, wrapped = keyring.new_home_key(home_id)
        if await connection.execute(sql("keys/put"), home_id, wrapped.key_id, wrapped.wrapped_key) == "INSERT 0 1":
            return made
        row = await connection.fetchrow(sql("keys/read"), home_id)
    if row is None:
        raise HomeErased(home_id)
    return keyring.unwrap(home_id, Wrapped(row["key_id"], row["wrapped_key"]))


async def put_home(connection: Transaction, home_id: UUID) -> None:
    """Make a home; one that is there stays as it is."""
    await enter_home(connection, home_id)
    await connection.execute(sql("homes/put"), home_id)


async def put_member(connection: Transaction, home_id: UUID, user_id: UUID, locale: str | None = None) -> None:
    """Let *user_id* live in a home, with the locale of their profile as it is written there.

    A tag that is longer than any real one counts as missing (L-24, C-38).
    """
    await enter_home(connection, home_id)
    raw = locale if locale and len(locale) <= LONGEST_TAG and locale.isprintable() else None
    await connection.execute(sql("homes/put_user"), user_id)
    await connection.execute(sql("homes/put_member"), home_id, user_id)
    await connection.execute(sql("homes/put_locale"), user_id, raw)


async def remove_member(connection: Transaction, home_id: UUID, user_id: UUID) -> None:
    """Let *user_id* move out; requests that were made for them stay theirs (A-09)."""
    await enter_home(connection, home_id)
    await connection.execute(sql("homes/remove_member"), home_id, user_id)


async def put_preferences(
    connection: Transaction,
    key: HomeKey,
    home_id: UUID,
    user_id: UUID,
    tone: str | None = None,
    blocked_terms: Sequence[str] = (),
) -> None:
    """What a member wishes from now on; requests that are under way keep what was frozen for them (L-17)."""
    wished = PreferencesV1(tone=tone, blocked_terms=tuple(blocked_terms))
    await enter_home(connection, home_id)
    terms = sealed_terms(key, wished, place=f"preferences/{user_id}")
    await connection.execute(sql("homes/put_preferences"), home_id, user_id, wished.tone, terms)


def sealed_terms(key: HomeKey, wished: PreferencesV1, *, place: str) -> bytes | None:
    """The terms as they are stored; None where there are none."""
    if not wished.blocked_terms:
        return None
    return key.seal(json.dumps(wished.blocked_terms, ensure_ascii=False).encode(), place=place)


def opened_preferences(key: HomeKey, tone: str | None, sealed: bytes | None, *, place: str) -> PreferencesV1:
    """The preferences behind a stored row."""
    terms = () if sealed is None else tuple(json.loads(key.open(sealed, place=place)))
    return PreferencesV1(tone=tone, blocked_terms=terms)


async def _living(connection: Transaction, home_id: UUID) -> bool:
    return bool(await connection.fetchval(sql("homes/living"), home_id))
