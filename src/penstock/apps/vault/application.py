"""The application: one `Penstock` with the type `enrichment`, and what its two sides need beside it.

The side that saves logs in as penstock_orchestrator and sees one owner's items
at a time; the side that enriches logs in as penstock_worker. Each builds its
own `Vault` from the same settings.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from penstock.apps.vault.enrichment import Enricher
from penstock.apps.vault.models import JOB_TYPE, LOG_IDS, EnrichmentArgs
from penstock.apps.vault.sessions import Connections, committing
from penstock.apps.vault.use_cases import ConfirmItem, CreateItemUseCase, DiscardItem, EnrichAgain, ListItems, ShowItem
from penstock.contract.contract_types import enrichment
from penstock.engine.app import Penstock
from penstock.engine.own_connections import PerLoop
from penstock.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from sqlalchemy.ext.asyncio import AsyncSession

    from penstock.apps.vault.models import Item, ItemKind, ItemStatus, ListedItem
    from penstock.engine.registry import JobType
    from penstock.store.connect import Pooled


class Vault:
    """Items and their enrichment. Each method is one transaction; `session` is for several things in one."""

    def __init__(self, app: Penstock) -> None:
        self.app = app
        self.enricher = Enricher(self)
        self._connections = PerLoop(lambda: Connections(app))
        app.on_close(self.disconnect)
        self.enrichment = _declared(self)

    # ------------------------------------------------------------------ items

    async def create_item(
        self, *, owner_id: UUID, content: str, kind: ItemKind | str = "text", key: str | None = None
    ) -> Item:
        """Save an item and its job; see `CreateItemUseCase`."""
        async with self.session() as session:
            saving = CreateItemUseCase(session, self.app)
            return await saving.execute(owner_id=owner_id, content=content, kind=kind, key=key)

    async def confirm_item(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """Take what was found as it is; see `ConfirmItem`."""
        async with self.session() as session:
            return await ConfirmItem(session).execute(owner_id=owner_id, item_id=item_id)

    async def discard_item(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """Want no more of it; see `DiscardItem`."""
        async with self.session() as session:
            return await DiscardItem(session).execute(owner_id=owner_id, item_id=item_id)

    async def enrich_again(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """Ask once more for what has failed; see `EnrichAgain`."""
        async with self.session() as session:
            return await EnrichAgain(session, self.app).execute(owner_id=owner_id, item_id=item_id)

    async def read_item(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """One item with all that is known of it; `UnknownItem` for none."""
        async with self.session() as session:
            return await ShowItem(session).execute(owner_id=owner_id, item_id=item_id)

    async def list_items(
        self, *, owner_id: UUID, status: ItemStatus | str | None = None, limit: int = 50, before: UUID | None = None
    ) -> list[ListedItem]:
        """The newest items first; see `ListItems`."""
        async with self.session() as session:
            return await ListItems(session).execute(owner_id=owner_id, status=status, limit=limit, before=before)

    # ------------------------------------------------------------ connections

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """A session of SQLAlchemy in a transaction, which commits at the end of the block."""
        async with committing(await self._connections.here.engine()) as session:
            yield session

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Pooled]:
        """A connection of the driver's own, in no transaction."""
        async with self._connections.here.own.connection() as connection:
            yield connection

    async def disconnect(self) -> None:
        """Give the connections of this event loop back."""
        found = self._connections.forget()
        if found is not None:
            await found.close()


def _declared(vault: Vault) -> JobType:
    """The type with the policy of its contract."""
    policy = enrichment()
    given = {one.name: getattr(policy, one.name) for one in fields(policy) if one.name != "job_type"}
    return vault.app.job(JOB_TYPE, args=EnrichmentArgs, log_ids=LOG_IDS, **given)(vault.enricher.enrich)


def vault_app(settings: Settings | None = None, **overrides: Any) -> Vault:
    """The application from *settings*, or from the environment with *overrides* before it."""
    return Vault(Penstock(settings=settings or load_settings(**overrides)))


@cache
def vault() -> Vault:
    """The application of this process, built from the environment when first asked for."""
    return vault_app()
