"""The routes of rewrites: an orchestrator hands messages in and keeps homes, a frontend follows the statuses.

There is no route that starts a worker or a run (Q-48), and none that is asked
again and again whether a rewrite is done (Q-84, Q-87): the database is read
for the caller, and the caller is told when something changes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from penstock.apps.rewrite.models import MOST_TERMS, UNAVAILABLE, Label, Surface
from penstock.apps.rewrite.refusals import RewriteRefused
from penstock.store.api_keys import Scope
from penstock.telemetry import web_events
from penstock.web.documents import told
from penstock.web.event_stream import MEDIA_TYPE, EventStream
from penstock.web.keys import Calling, routes_for
from penstock.web.names import Input, key_header, readable
from penstock.web.ports import Homes, Rewriting
from penstock.web.problems import Refused, handed
from penstock.web.streams import Stream, Streams

LONGEST_DELAY: Final = 366 * 86_400
MOST_MENTIONS: Final = 100

orchestrators = APIRouter(route_class=routes_for(Scope.ORCHESTRATOR), tags=["orchestrator"])
frontends = APIRouter(route_class=routes_for(Scope.FRONTEND), tags=["frontend"])

HomeId = Annotated[UUID, Path(description="The home.")]
UserId = Annotated[UUID, Path(description="The member.")]
IdempotencyKey = Annotated[
    str | None, key_header("The same key and message again give the same request; another message is refused.")
]
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID", pattern=r"^[0-9]{1,17}$", description="The id of the last event seen: go on from there."
    ),
]


class RewriteInput(Input):
    """One message for one member of the home."""

    home_id: UUID
    sender_user_id: UUID
    mentions: Annotated[list[UUID], Field(max_length=MOST_MENTIONS, description="exactly one member is mentioned")]
    text: Annotated[str, Field(repr=False, description="the message, up to 8,000 characters")]
    surface: Surface
    reveal_delay_seconds: Annotated[int, Field(strict=True, ge=0, le=LONGEST_DELAY)] | None = None


class RewriteTaken(BaseModel):
    """The request is stored and waits; the stream tells what becomes of it."""

    model_config = ConfigDict(extra="forbid")

    rewrite_request_id: UUID
    status: Literal["queued"]


class MemberInput(Input):
    """A member of a home."""

    locale: Annotated[str, Field(max_length=35, pattern=r"^[ -~]*$")] | None = Field(
        None, description="as the profile has it, such as es-MX; what is missing or wrong counts as English"
    )


class PreferencesInput(Input):
    """What a member wishes of messages from now on; requests that were made keep what was wished then."""

    tone: Label | None = None
    blocked_terms: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100), AfterValidator(readable)]],
        Field(max_length=MOST_TERMS),
    ] = Field(default=[], repr=False)


@orchestrators.post(
    "/rewrites",
    status_code=202,
    responses=told("idempotency_conflict", UNAVAILABLE),
    operation_id="submit_rewrite",
)
async def submit(
    request: Request, caller: Calling, message: RewriteInput, idempotency_key: IdempotencyKey = None
) -> RewriteTaken:
    """Hand a message in for rewriting. The answer comes before any provider is asked (Q-83)."""
    caller.require_home(message.home_id)
    rewriting: Rewriting = handed(request, "rewriting")
    delay = message.reveal_delay_seconds
    try:
        taken = await rewriting.submit_rewrite(
            home_id=message.home_id,
            sender_user_id=message.sender_user_id,
            recipient_user_ids=message.mentions,
            text=message.text,
            surface=message.surface,
            reveal_delay=None if delay is None else timedelta(seconds=delay),
            idempotency_key=idempotency_key,
        )
    except RewriteRefused as refused:
        raise Refused(refused.code, more={"title": str(refused)}) from None
    except Exception as error:
        web_events.rewrite_unavailable(request.state.request_id, type(error).__name__)
        raise Refused(UNAVAILABLE) from None
    if not taken.accepted:
        raise Refused(UNAVAILABLE)
    return RewriteTaken(rewrite_request_id=taken.rewrite_request_id, status="queued")


@orchestrators.put("/homes/{home_id}", status_code=204, responses=told("home_unknown"), operation_id="put_home")
async def put_home(request: Request, caller: Calling, home_id: HomeId) -> None:
    """Make a home, with a data key of its own; one that is there stays as it is."""
    caller.require_home(home_id)
    await _kept(request).put_home(home_id)


@orchestrators.put(
    "/homes/{home_id}/members/{user_id}", status_code=204, responses=told("home_unknown"), operation_id="put_member"
)
async def put_member(request: Request, caller: Calling, home_id: HomeId, user_id: UserId, member: MemberInput) -> None:
    """Make somebody a member of a home, or change their locale."""
    caller.require_home(home_id)
    await _kept(request).put_member(home_id, user_id, member.locale)


@orchestrators.put(
    "/homes/{home_id}/members/{user_id}/preferences",
    status_code=204,
    responses=told("home_unknown", "member_unknown"),
    operation_id="put_preferences",
)
async def put_preferences(
    request: Request, caller: Calling, home_id: HomeId, user_id: UserId, wishes: PreferencesInput
) -> None:
    """Say what a member wishes; it holds for messages that are handed in from now on."""
    caller.require_home(home_id)
    await _kept(request).put_preferences(home_id, user_id, wishes.tone, wishes.blocked_terms)


@frontends.get(
    "/rewrites/stream",
    status_code=200,
    response_class=EventStream,
    responses={
        **told("too_many_streams", "streams_full"),
        200: {"description": "Server-Sent Events", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}},
    },
    operation_id="follow_rewrites",
)
async def follow(request: Request, caller: Calling, last_event_id: LastEventId = None) -> Response:
    """The statuses of the key's own home, then each change as it comes: events `status`, `live` and `end`.

    The data of a `status` is `rewrite_request_id`, `status`, `completed_at` and `failure_code`. Everything is
    told at least once; what was told twice is the same.
    """
    streams: Streams = request.app.state.streams
    if caller.home_id is None:
        raise Refused("not_allowed")
    last = None if last_event_id is None else int(last_event_id)
    return EventStream(streams, Stream(streams, caller, caller.home_id, last_event=last), caller.key_id)


def _kept(request: Request) -> Homes:
    homes: Homes = handed(request, "homes")
    return homes
