"""Why an item is not taken, not found, or not moved; no message repeats what somebody wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.contract.errors import NotFound, PenstockError, StepRefused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from penstock.apps.vault.models import ItemStatus

WHY: Final[Mapping[str, str]] = {
    "kind_unknown": "an item is a text, a link or a note; name one of these",
    "key_reused": "this key was used before to save something else; use a new key for a new item",
    "key_unusable": "a key has 1 to 200 characters, and no NUL; choose such a one",
    "item_empty": "the item has no text in it; save something to be enriched",
    "item_too_large": "the item has {size} bytes, and {most} are allowed here; save a part of it, or raise "
    "PENSTOCK_VAULT_MAX_ITEM_BYTES",
    "item_unreadable": "the item holds a NUL or half a surrogate pair, which PostgreSQL cannot store; send text",
    "link_invalid": "a link is one http or https address of up to 2,000 characters without a password in it; "
    "save anything else as text or note",
}


class ItemRefused(PenstockError):
    """The item was not saved, and no job was made for it."""

    def __init__(self, code: str, **values: int) -> None:
        super().__init__(WHY[code].format(**values))
        self.code = code


class UnknownItem(NotFound):
    """This owner has no such item; whether somebody else has it is not told."""

    def __init__(self, item_id: UUID | str) -> None:
        super().__init__("item", item_id)
        self.args = (f"there is no item {item_id} of this owner; `penstock vault list` shows what is there",)


class ItemMoveRefused(StepRefused):
    """The item is not where this could be done; it stays as it is."""

    def __init__(self, item_id: UUID, status: ItemStatus, wish: str, instead: str) -> None:
        super().__init__(f"item {item_id} is {status} and cannot be {wish}; {instead}")
        self.status = status
        self.instead = instead
