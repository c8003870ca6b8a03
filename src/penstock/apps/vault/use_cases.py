"""What people do with their items. Each use case works in the transaction of its session; the caller commits.

Everything that a job is about is decided under the lock of its item, so two
who wish different things of one item come one after the other.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from penstock.apps.vault.items import ItemRepository, keyed_id
from penstock.apps.vault.models import ItemKind, ItemStatus
from penstock.apps.vault.outbox import OutboxRepository
from penstock.apps.vault.refusals import ItemMoveRefused, ItemRefused

if TYPE_CHECKING:
    from uuid import UUID

    from sqlalchemy.ext.asyncio import AsyncSession

    from penstock.apps.vault.models import Item, ListedItem
    from penstock.engine.app import Penstock

MOST_LISTED: Final = 10_000
LONGEST_LINK: Final = 2_000
LONGEST_KEY: Final = 200
# One address: a scheme, a host without a name or password before it, and no space or control character anywhere.
_LINK: Final = re.compile(r"https?://[^\s/?#@\x00-\x1f\x7f]+(?:[/?#][^\s\x00-\x1f\x7f]*)?", re.IGNORECASE)
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class CreateItemUseCase:
    """Save an item and its job, both or neither (D-08, C-53)."""

    def __init__(self, session: AsyncSession, app: Penstock | None = None) -> None:
        self._items = ItemRepository(session)
        self._outbox = OutboxRepository(session, app)

    async def execute(
        self, *, owner_id: UUID, content: str, kind: ItemKind | str = ItemKind.TEXT, key: str | None = None
    ) -> Item:
        """Insert the item, which waits for its enrichment, and the job behind it; `ItemRefused` writes nothing.

        The same *key* of the same owner again gives the item that it made,
        as it stands by now; with other content it is refused.
        """
        known = _kind(kind)
        text = accepted(known, content, self._outbox.app.settings.vault_max_item_bytes)
        if key is None:
            item = await self._items.create(owner_id, known, text)
        elif (made := await self._items.create_keyed(owner_id, known, text, _key(key))) is not None:
            item = made
        else:
            return await self._known(owner_id, known, text, key)
        await self._outbox.create(str(item.id))
        return item

    async def _known(self, owner_id: UUID, kind: ItemKind, content: str, key: str) -> Item:
        item = await self._items.get_by_id(owner_id, keyed_id(owner_id, key))
        if (item.kind, item.content) != (kind, content):
            raise ItemRefused("key_reused")
        return item


class ConfirmItem:
    """The owner takes what was found as it is."""

    def __init__(self, session: AsyncSession) -> None:
        self._items = ItemRepository(session)

    async def execute(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """READY_TO_CONFIRM becomes CONFIRMED; from anywhere else `ItemMoveRefused`, also the second time."""
        item = await self._items.get_by_id_for_update(owner_id, item_id)
        if item.status is not ItemStatus.READY_TO_CONFIRM:
            raise ItemMoveRefused(item.id, item.status, "confirmed", _INSTEAD[item.status])
        return await self._items.move(item, ItemStatus.CONFIRMED)


class DiscardItem:
    """The owner wants no more of it. An enrichment that is under way ends without a trace (D-53)."""

    def __init__(self, session: AsyncSession) -> None:
        self._items = ItemRepository(session)

    async def execute(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """Everything but CONFIRMED becomes DISCARDED; what was discarded stays so."""
        item = await self._items.get_by_id_for_update(owner_id, item_id)
        if item.status is ItemStatus.DISCARDED:
            return item
        if item.status is ItemStatus.CONFIRMED:
            raise ItemMoveRefused(item.id, item.status, "discarded", "what was confirmed is kept")
        return await self._items.move(item, ItemStatus.DISCARDED)


class EnrichAgain:
    """Ask once more for an enrichment that has failed for good: a new round with a new job (C-62)."""

    def __init__(self, session: AsyncSession, app: Penstock | None = None) -> None:
        self._items = ItemRepository(session)
        self._outbox = OutboxRepository(session, app)

    async def execute(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """ENRICHMENT_FAILED becomes ENRICHING; from anywhere else `ItemMoveRefused`."""
        item = await self._items.get_by_id_for_update(owner_id, item_id)
        if item.status is not ItemStatus.ENRICHMENT_FAILED:
            raise ItemMoveRefused(item.id, item.status, "enriched again", "only a failed enrichment is repeated")
        begun = await self._items.move(item, ItemStatus.ENRICHING)
        await self._outbox.create(str(item.id))
        return begun


class ListItems:
    """An owner's items, the newest first."""

    def __init__(self, session: AsyncSession) -> None:
        self._items = ItemRepository(session)

    async def execute(
        self, *, owner_id: UUID, status: ItemStatus | str | None = None, limit: int = 50, before: UUID | None = None
    ) -> list[ListedItem]:
        """Up to *limit* of them; *before* is the id of the last one seen."""
        wanted = None if status is None else ItemStatus(status)
        most = max(1, min(limit, MOST_LISTED))
        return await self._items.list_by_owner(owner_id, status=wanted, limit=most, before=before)


class ShowItem:
    """One item with all that is known of it."""

    def __init__(self, session: AsyncSession) -> None:
        self._items = ItemRepository(session)

    async def execute(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """The item; `UnknownItem` when this owner has none of this id."""
        return await self._items.get_by_id(owner_id, item_id)


_INSTEAD: Final = {
    ItemStatus.ENRICHING: "wait until it is READY_TO_CONFIRM",
    ItemStatus.CONFIRMED: "it was confirmed before, and nothing has changed",
    ItemStatus.DISCARDED: "save it again if it is wanted after all",
    ItemStatus.ENRICHMENT_FAILED: "ask for its enrichment again, or discard it",
}


def accepted(kind: ItemKind, content: str, most_bytes: int) -> str:
    """*content* as it is stored, or `ItemRefused`: empty, unreadable, too large, or no link where one is said to be."""
    if _UNSTORABLE.search(content):
        raise ItemRefused("item_unreadable")
    if not any(map(_is_seen, content)):
        raise ItemRefused("item_empty")
    size = len(content.encode())
    if size > most_bytes:
        raise ItemRefused("item_too_large", size=size, most=most_bytes)
    if kind is not ItemKind.LINK:
        return content
    link = content.strip()
    if len(link) > LONGEST_LINK or not _LINK.fullmatch(link):
        raise ItemRefused("link_invalid")
    return link


def _is_seen(character: str) -> bool:
    """Whether there is anything to see or to say about it: no space, no control, no mark without a width."""
    return not character.isspace() and unicodedata.category(character) not in {"Cc", "Cf", "Zs", "Zl", "Zp", "Mn"}


def _key(key: str) -> str:
    if not (1 <= len(key) <= LONGEST_KEY) or _UNSTORABLE.search(key):
        raise ItemRefused("key_unusable")
    return key


def _kind(kind: ItemKind | str) -> ItemKind:
    if kind not in list(ItemKind):
        raise ItemRefused("kind_unknown")
    return ItemKind(kind)
