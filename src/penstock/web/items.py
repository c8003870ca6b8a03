"""The routes of saved items: a person keeps, looks at, confirms and discards what is theirs.

A key of scope frontend speaks for one user, and that user is the owner: no
route takes an owner from the request. The rows are written and read as
penstock_orchestrator, inside that owner's own rows.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.apps.vault.models import Enrichment, ItemKind, ItemStatus
from penstock.apps.vault.refusals import ItemMoveRefused, ItemRefused, UnknownItem
from penstock.contract.errors import StepRefused, UnknownType
from penstock.store.api_keys import Scope
from penstock.web.documents import told
from penstock.web.keys import Caller, Calling, routes_for
from penstock.web.names import Input, key_header
from penstock.web.ports import Items
from penstock.web.problems import Refused, handed

MOST: Final = 500  # of a page
CONFLICT: Final = "item_moved_on"
REUSED: Final = "idempotency_conflict"
REFUSALS: Final = ("item_empty", "item_too_large", "item_unreadable", "link_invalid")

router = APIRouter(route_class=routes_for(Scope.FRONTEND), tags=["frontend"])

IdempotencyKey = Annotated[
    str | None, key_header("The same key and item again give the item it made; another item is refused.")
]
ItemId = Annotated[UUID, Path(description="The item.")]


class ItemInput(Input):
    """Something to keep."""

    content: Annotated[str, Field(repr=False, description="the text, the note, or the address of the link")]
    kind: ItemKind = ItemKind.TEXT


class Page(Input):
    """Which items to list; a word that is none of these is refused, as it may be a slip of the pen."""

    status: Annotated[ItemStatus | None, Field(description="Only these.")] = None
    limit: Annotated[int, Field(ge=1, le=MOST, description="At most so many.")] = 50
    before: Annotated[UUID | None, Field(description="The last item of the page before.")] = None


class ItemAnswer(BaseModel):
    """An item with all that is known of it; title and enrichment are there once it is READY_TO_CONFIRM."""

    model_config = ConfigDict(extra="forbid")

    item_id: UUID
    kind: ItemKind
    content: str = Field(repr=False)
    status: ItemStatus
    title: str | None = Field(repr=False)
    enrichment: Enrichment | None = Field(repr=False)
    failure_code: Annotated[str | None, Field(description="with status ENRICHMENT_FAILED only")]
    created_at: datetime
    updated_at: datetime


class ListedItemAnswer(BaseModel):
    """An item in a list."""

    model_config = ConfigDict(extra="forbid")

    item_id: UUID
    kind: ItemKind
    status: ItemStatus
    title: str | None = Field(repr=False)
    preview: Annotated[str, Field(repr=False, description="the first 200 characters of what was saved")]
    failure_code: str | None
    created_at: datetime
    updated_at: datetime


class ItemsAnswer(BaseModel):
    """One page, the newest first."""

    model_config = ConfigDict(extra="forbid")

    items: list[ListedItemAnswer]


@router.post("/items", status_code=201, responses=told(*REFUSALS, REUSED), operation_id="save_item")
async def save(
    request: Request, response: Response, caller: Calling, item: ItemInput, idempotency_key: IdempotencyKey = None
) -> ItemAnswer:
    """Save an item. The answer comes before anything is enriched; that takes a moment more."""
    try:
        saved = await _items(request).create_item(
            owner_id=_owner(caller), content=item.content, kind=item.kind, key=idempotency_key
        )
    except ItemRefused as refused:
        raise Refused(REUSED if refused.code == "key_reused" else refused.code) from None
    except UnknownType:
        raise Refused("switched_off") from None  # no worker has ever enriched anything here
    response.headers["Location"] = f"/items/{saved.id}"
    return _answer(saved)


@router.get("/items", operation_id="list_items")
async def list_items(request: Request, caller: Calling, page: Annotated[Page, Query()]) -> ItemsAnswer:
    """One's own items, the newest first."""
    found = await _items(request).list_items(
        owner_id=_owner(caller), status=page.status, limit=page.limit, before=page.before
    )
    return ItemsAnswer(
        items=[ListedItemAnswer(item_id=item.id, **_shared(item), preview=item.preview) for item in found]
    )


@router.get("/items/{item_id}", responses=told("not_found"), operation_id="read_item")
async def read(request: Request, caller: Calling, item_id: ItemId) -> ItemAnswer:
    """One item of one's own."""
    return await _moved(_items(request).read_item(owner_id=_owner(caller), item_id=item_id))


@router.post("/items/{item_id}/confirm", responses=told("not_found", CONFLICT), operation_id="confirm_item")
async def confirm(request: Request, caller: Calling, item_id: ItemId) -> ItemAnswer:
    """Take what was found as it is. Only an item that is READY_TO_CONFIRM can be confirmed, and once."""
    return await _moved(_items(request).confirm_item(owner_id=_owner(caller), item_id=item_id))


@router.post("/items/{item_id}/discard", responses=told("not_found", CONFLICT), operation_id="discard_item")
async def discard(request: Request, caller: Calling, item_id: ItemId) -> ItemAnswer:
    """Want no more of it, also while it is being enriched. What was confirmed stays."""
    return await _moved(_items(request).discard_item(owner_id=_owner(caller), item_id=item_id))


@router.post(
    "/items/{item_id}/enrich", status_code=202, responses=told("not_found", CONFLICT), operation_id="enrich_item_again"
)
async def enrich(request: Request, caller: Calling, item_id: ItemId) -> ItemAnswer:
    """Ask once more for an enrichment that has failed."""
    return await _moved(_items(request).enrich_again(owner_id=_owner(caller), item_id=item_id))


async def _moved(wish: Any) -> ItemAnswer:
    try:
        return _answer(await wish)
    except UnknownItem:
        raise Refused("not_found") from None
    except ItemMoveRefused as refused:
        raise Refused(CONFLICT, more={"title": f"The item is {refused.status}: {refused.instead}."}) from None
    except StepRefused:  # the table's own rule was faster than the lock
        raise Refused(CONFLICT) from None
    except UnknownType:
        raise Refused("switched_off") from None


def _items(request: Request) -> Items:
    found: Items = handed(request, "items")
    return found


def _owner(caller: Caller) -> UUID:
    if caller.user_id is None:
        raise Refused("not_allowed")
    return caller.user_id


def _answer(item: Any) -> ItemAnswer:
    return ItemAnswer(item_id=item.id, **_shared(item), content=item.content, enrichment=item.enrichment)


def _shared(item: Any) -> dict[str, Any]:
    names = ("kind", "status", "title", "failure_code", "created_at", "updated_at")
    return {name: getattr(item, name) for name in names}
