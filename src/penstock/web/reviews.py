"""The routes of reviews: an orchestrator asks for one and reads how it stands."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from penstock.apps.review.models import Finding, Recipient
from penstock.contract.errors import (
    EnqueueRefused,
    IdempotencyKeyReused,
    NotFound,
    RecipientInvalid,
    RerunNotAllowed,
    UnknownType,
)
from penstock.store.api_keys import Scope
from penstock.web.documents import told
from penstock.web.keys import Calling, routes_for
from penstock.web.names import Input, key_header, readable
from penstock.web.ports import Reviewing
from penstock.web.problems import Refused, handed

MOST_RECIPIENTS: Final = 100
# The first class that fits decides, so a subclass stands before its parent.
CODES: Final = (
    (RerunNotAllowed, "rerun_not_allowed"),
    (RecipientInvalid, "recipient_invalid"),
    (IdempotencyKeyReused, "idempotency_key_reused"),
    (EnqueueRefused, "review_refused"),
)

router = APIRouter(route_class=routes_for(Scope.ORCHESTRATOR), tags=["orchestrator"])

ReviewId = Annotated[UUID, Path(description="The review.")]
IdempotencyKey = Annotated[
    str, key_header("The same key gives the same review, whatever else comes with it.", longest=400)
]


class ReviewInput(Input):
    """A changelist, the version of its review, and everybody who is to be told."""

    changelist_id: Annotated[str, Field(max_length=300), AfterValidator(readable)] = Field(
        description="source and ref, such as shop:4f1c2aa or hub:17"
    )
    review_version: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] = 1
    recipients: Annotated[list[Recipient], Field(min_length=1, max_length=MOST_RECIPIENTS)]
    rerun: Annotated[bool, Field(strict=True)] = Field(
        default=False, description="make a higher version although one has succeeded"
    )
    label: Annotated[str, Field(min_length=1, max_length=50), AfterValidator(readable)] | None = Field(
        None, description="for display only"
    )


class DeliveryAnswer(BaseModel):
    """Somebody who is told, and how far that is."""

    model_config = ConfigDict(extra="ignore")

    channel: str
    address: str = Field(repr=False)
    required: bool
    status: Annotated[str, Field(description="pending, sent, failed or reconciling")]
    promise: Annotated[str | None, Field(description="at_most_once or at_least_once, as the channel can keep it")]
    waived: bool
    notification_id: str | None
    notified_at: datetime | None
    provider_confirmed_at: datetime | None
    last_error_code: str | None


class ReviewAnswer(BaseModel):
    """A review as it stands; findings are there once all of them are."""

    model_config = ConfigDict(extra="forbid")

    review_id: UUID
    job_id: UUID
    changelist_id: str
    review_version: int
    label: str | None
    status: Annotated[str, Field(description="in_progress, retryable_failed, succeeded, dead_letter or canceled")]
    stage: Annotated[str, Field(description="fetch, llm or notify")]
    created_at: datetime
    superseded_by_job_id: UUID | None
    findings: list[Finding] | None
    deliveries: list[DeliveryAnswer]


@router.post(
    "/reviews",
    status_code=202,
    responses={
        **told("rerun_not_allowed", "idempotency_key_reused", "recipient_invalid", "review_refused"),
        200: {"description": "It was there already, and nothing new is done", "model": ReviewAnswer},
    },
    operation_id="create_review",
)
async def create(
    request: Request, response: Response, caller: Calling, asked: ReviewInput, idempotency_key: IdempotencyKey
) -> ReviewAnswer:
    """Ask for a review. What is there already is answered as it stands, with 200 (C-47)."""
    reviewing = _reviewing(request, caller)
    try:
        created = await reviewing.create_review(
            idempotency_key=idempotency_key,
            changelist_id=asked.changelist_id,
            review_version=asked.review_version,
            recipients=asked.recipients,
            rerun=asked.rerun,
            label=asked.label,
        )
    except UnknownType:
        raise Refused("switched_off") from None  # no worker has ever served it here
    except EnqueueRefused as refused:
        code = next(code for kind, code in CODES if isinstance(refused, kind))
        told_of = {"title": f"{refused}."} if code == "recipient_invalid" else {}  # it names a number and no address
        raise Refused(code, more=told_of) from None
    if not created.created:
        response.status_code = 200
    response.headers["Location"] = f"/reviews/{created.review.review_id}"
    return _answer(created.review)


@router.get("/reviews/{review_id}", responses=told("not_found"), operation_id="read_review")
async def read(request: Request, caller: Calling, review_id: ReviewId) -> ReviewAnswer:
    """How a review stands, what was found, and who has been told."""
    try:
        return _answer(await _reviewing(request, caller).read_review(review_id))
    except NotFound:
        raise Refused("not_found") from None


def _reviewing(request: Request, caller: Calling) -> Reviewing:
    """The application; a key that is bound to a home has no part in it."""
    if caller.home_id is not None:
        raise Refused("not_allowed")
    found: Reviewing = handed(request, "reviewing")
    return found


def _answer(review: Any) -> ReviewAnswer:
    return ReviewAnswer.model_validate(review.model_dump())
