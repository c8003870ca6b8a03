"""The rows of items: an owner's own in a session, and any of them for the worker that enriches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from penstock.apps.vault.models import Item, ItemKind, ItemStatus, ListedItem, SystemItem
from penstock.apps.vault.refusals import UnknownItem
from penstock.apps.vault.rows import rows_of
from penstock.contract.keys import uuid7

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sqlalchemy.ext.asyncio import AsyncSession

    from penstock.apps.vault.models import Enrichment
    from penstock.store.claims import Transaction


class ItemRepository:
    """Items, in the transaction of *db*.

    What names an owner sees that owner's rows alone, by the database's own
    rule. What ends in `_system` is for the worker's login, which sees all.
    """

    def __init__(self, db: AsyncSession | Transaction) -> None:
        self._rows = rows_of(db)

    async def create(self, owner_id: UUID, kind: ItemKind, content: str) -> Item:
        """Insert a new item, which waits for its enrichment."""
        item = await self._insert(uuid7(), owner_id, kind, content)
        assert item is not None  # noqa: S101 - the id is a new one
        return item

    async def create_keyed(self, owner_id: UUID, kind: ItemKind, content: str, key: str) -> Item | None:
        """The same under this owner's *key*; None when that has one."""
        return await self._insert(keyed_id(owner_id, key), owner_id, kind, content)

    async def get_by_id(self, owner_id: UUID, item_id: UUID) -> Item:
        """The item; `UnknownItem` when this owner has none of this id."""
        await self._enter(owner_id)
        return self._found(await self._rows.one("items/get", str(item_id)), item_id)

    async def get_by_id_for_update(self, owner_id: UUID, item_id: UUID) -> Item:
        """The item, locked until the transaction ends."""
        await self._enter(owner_id)
        return self._found(await self._rows.one("items/lock", str(item_id)), item_id)

    async def list_by_owner(
        self, owner_id: UUID, *, status: ItemStatus | None = None, limit: int = 50, before: UUID | None = None
    ) -> list[ListedItem]:
        """The newest items first; *before* is the id of the last one seen."""
        await self._enter(owner_id)
        values = (
            str(owner_id),
            None if status is None else str(status),
            None if before is None else str(before),
            limit,
        )
        return [ListedItem.of_row(row) for row in await self._rows.all("items/list", *values)]

    async def move(self, item: Item, status: ItemStatus) -> Item:
        """Give a locked item another status; from a failure back to the beginning it is a new round."""
        return self._found(await self._rows.one("items/move", str(item.id), str(status)), item.id)

    # ------------------------------------------------------------------ the worker's

    async def get_by_id_system(self, item_id: UUID) -> SystemItem | None:
        """Whosever item it is, as it stands."""
        return _system(await self._rows.one("items/get_system", str(item_id)))

    async def get_by_id_for_update_system(self, item_id: UUID) -> SystemItem | None:
        """Whosever item it is, locked until the transaction ends (D-53)."""
        return _system(await self._rows.one("items/lock_system", str(item_id)))

    async def enriched(self, item_id: UUID, title: str, found: Enrichment) -> None:
        """Store what was found; the item waits for its owner from now on."""
        text = json.dumps(found.model_dump(mode="json"), ensure_ascii=False)
        await self._rows.one("items/enrich", str(item_id), title, text)

    # ------------------------------------------------------------------------------

    async def _insert(self, item_id: UUID, owner_id: UUID, kind: ItemKind, content: str) -> Item | None:
        await self._enter(owner_id)
        row = await self._rows.one("items/insert", str(item_id), str(owner_id), str(kind), content)
        return None if row is None else Item.of_row(row)

    async def _enter(self, owner_id: UUID) -> None:
        await self._rows.one("items/enter", str(owner_id))

    @staticmethod
    def _found(row: Mapping[str, Any] | None, item_id: UUID) -> Item:
        if row is None:
            raise UnknownItem(item_id)
        return Item.of_row(row)


def keyed_id(owner_id: UUID, key: str) -> UUID:
    """The id of the item that an owner saves under *key*: the same key is the same item."""
    return uuid5(owner_id, key)


def _system(row: Mapping[str, Any] | None) -> SystemItem | None:
    if row is None:
        return None
    return SystemItem(
        UUID(str(row["id"])), ItemKind(row["kind"]), row["content"], ItemStatus(row["status"]), row["enrichment_round"]
    )
