"""Homes as the routes keep them: one transaction each, as the orchestrator, inside the home that is named."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.apps.rewrite import homes, repository
from penstock.apps.rewrite.homes import HomeErased
from penstock.web.problems import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from uuid import UUID

    from penstock.apps.rewrite.application import Rewrites
    from penstock.apps.rewrite.envelope import HomeKey
    from penstock.store.connect import Pooled


class KeptHomes:
    """Keeps homes in the tables of the rewrite application. An erased home is unknown from then on."""

    def __init__(self, rewrites: Rewrites) -> None:
        self._rewrites = rewrites

    async def put_home(self, home_id: UUID) -> None:
        """Make the home and its data key, unless they are there."""
        async with self._rewrites.in_home(home_id) as connection:
            await homes.put_home(connection, home_id)
            await self._key(connection, home_id)

    async def put_member(self, home_id: UUID, user_id: UUID, locale: str | None) -> None:
        """Make or change a member of a home that is known."""
        async with self._known(home_id) as (connection, _):
            await homes.put_member(connection, home_id, user_id, locale)

    async def put_preferences(
        self, home_id: UUID, user_id: UUID, tone: str | None, blocked_terms: Sequence[str]
    ) -> None:
        """Say what a member wishes; a stranger wishes nothing here."""
        async with self._known(home_id) as (connection, key):
            party = await repository.load_party(connection, home_id, user_id, user_id)
            if not party.sender_is_member:
                raise Refused("member_unknown")
            await homes.put_preferences(connection, key, home_id, user_id, tone, blocked_terms)

    @asynccontextmanager
    async def _known(self, home_id: UUID) -> AsyncIterator[tuple[Pooled, HomeKey]]:
        async with self._rewrites.in_home(home_id) as connection:
            yield connection, await self._key(connection, home_id)

    async def _key(self, connection: Pooled, home_id: UUID) -> HomeKey:
        try:
            return await homes.home_key(connection, self._rewrites.keyring, home_id, create=True)
        except HomeErased:
            raise Refused("home_unknown") from None
