"""What the routes ask of the applications behind them: to rewrite, to keep homes, to review, to save items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from penstock.apps.review.creation import Created
    from penstock.apps.review.models import Recipient, Review
    from penstock.apps.rewrite.models import Surface
    from penstock.apps.vault.models import Item, ItemKind, ItemStatus, ListedItem


class Taken(Protocol):
    """What became of a submission; nothing about providers or queues."""

    @property
    def rewrite_request_id(self) -> UUID:
        """The request, also when it failed."""

    @property
    def accepted(self) -> bool:
        """Whether it waits for its rewrite."""


class Rewriting(Protocol):
    """Takes rewrites on; it alone may enqueue them (A-35)."""

    async def submit_rewrite(
        self,
        *,
        home_id: UUID,
        sender_user_id: UUID,
        recipient_user_ids: Sequence[UUID],
        text: str,
        surface: Surface,
        reveal_delay: timedelta | None = None,
        idempotency_key: str | None = None,
    ) -> Taken:
        """Persist and enqueue before anything is asked of a rewrite provider (Q-83)."""


class Homes(Protocol):
    """Keeps who lives where and what they wish."""

    async def put_home(self, home_id: UUID) -> None:
        """Make the home, unless it is there."""

    async def put_member(self, home_id: UUID, user_id: UUID, locale: str | None) -> None:
        """Make or change a member."""

    async def put_preferences(
        self, home_id: UUID, user_id: UUID, tone: str | None, blocked_terms: Sequence[str]
    ) -> None:
        """Say what a member wishes from now on."""


class Reviewing(Protocol):
    """Makes reviews, and tells how they stand."""

    async def create_review(
        self,
        *,
        idempotency_key: str,
        changelist_id: str,
        review_version: int,
        recipients: Sequence[Recipient],
        rerun: bool,
        label: str | None,
    ) -> Created:
        """Persist and enqueue, or return what is there (C-47)."""

    async def read_review(self, review_id: UUID) -> Review:
        """A review as it stands; `NotFound` for none."""


class Items(Protocol):
    """Keeps what people save, each for its owner."""

    async def create_item(self, *, owner_id: UUID, content: str, kind: ItemKind, key: str | None) -> Item:
        """Save an item and the job that enriches it, both or neither (D-08); a known *key* gives the item it made."""

    async def list_items(
        self, *, owner_id: UUID, status: ItemStatus | None, limit: int, before: UUID | None
    ) -> list[ListedItem]:
        """The newest first; *before* is the last one seen."""

    async def read_item(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """An item as it stands; `UnknownItem` for none, and for somebody else's."""

    async def confirm_item(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """Take what was found as it is."""

    async def discard_item(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """Want no more of it."""

    async def enrich_again(self, *, owner_id: UUID, item_id: UUID) -> Item:
        """Ask once more for what has failed."""
