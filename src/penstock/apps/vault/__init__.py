"""Saved items, enriched a moment later.

    from penstock.apps.vault import vault_app

    vault = vault_app()                            # settings from the environment
    item = await vault.create_item(owner_id=..., content="...", kind="note")

    penstock worker penstock.apps.vault:app

In a transaction of your own, with an AsyncSession of SQLAlchemy:

    await CreateItemUseCase(session, vault.app).execute(owner_id=..., content="...")

Importing this costs next to nothing; what is named here is loaded when it is
asked for, and `app` is built from the environment then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.apps.lazy import lazily

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.apps.vault.application import Vault, vault, vault_app
    from penstock.apps.vault.items import ItemRepository
    from penstock.apps.vault.models import Item, ItemKind, ItemStatus, OutboxJob
    from penstock.apps.vault.outbox import OutboxRepository
    from penstock.apps.vault.refusals import ItemMoveRefused, ItemRefused, UnknownItem
    from penstock.apps.vault.use_cases import ConfirmItem, CreateItemUseCase, DiscardItem, EnrichAgain, ListItems

__all__ = [
    "ConfirmItem", "CreateItemUseCase", "DiscardItem", "EnrichAgain", "Item", "ItemKind", "ItemMoveRefused",
    "ItemRefused", "ItemRepository", "ItemStatus", "ListItems", "OutboxJob", "OutboxRepository", "UnknownItem", "Vault",
    "vault", "vault_app",
]  # fmt: skip

_HERE: Final[Mapping[str, str]] = {
    "Vault": "application",
    "vault": "application",
    "vault_app": "application",
    "ItemRepository": "items",
    "Item": "models",
    "ItemKind": "models",
    "ItemStatus": "models",
    "OutboxJob": "models",
    "OutboxRepository": "outbox",
    "ItemMoveRefused": "refusals",
    "ItemRefused": "refusals",
    "UnknownItem": "refusals",
    "ConfirmItem": "use_cases",
    "CreateItemUseCase": "use_cases",
    "DiscardItem": "use_cases",
    "EnrichAgain": "use_cases",
    "ListItems": "use_cases",
}


__getattr__ = lazily(__name__, _HERE, "vault")
