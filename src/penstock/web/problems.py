"""Every error in one form: `application/problem+json` (RFC 9457), with a code that stays the same.

A problem says what is wrong and repeats nothing that the caller sent. For bad
input it names the place, as far as the place has a name of ours, and the rule.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.web import names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException as AnyHTTPException

MEDIA_TYPE: Final = "application/problem+json"
TYPE: Final = "urn:penstock:problem:"
MOST_PLACES: Final = 20

# code → status and title. Codes of refused rewrites come from the application and are 422.
PROBLEMS: Final[Mapping[str, tuple[int, str]]] = {
    "body_malformed": (400, "The body is no JSON."),
    "bad_request": (400, "The request cannot be understood."),
    "key_refused": (401, "The key is missing or not accepted."),
    "not_allowed": (403, "This key may not do that."),
    "not_found": (404, "There is nothing here."),
    "method_not_allowed": (405, "This method is not for this path."),
    "body_too_slow": (408, "The body did not arrive in time."),
    "idempotency_conflict": (409, "This Idempotency-Key came before, with something else."),
    "idempotency_key_reused": (409, "This Idempotency-Key belongs to work of another time; use a new one."),
    "rerun_not_allowed": (409, "Only a rerun with a version above every other makes new work for this changelist."),
    "item_moved_on": (409, "The item is not where this could be done; it stays as it is."),
    "body_too_large": (413, "The body is larger than allowed."),
    "media_type_refused": (415, "The body has to be application/json, as it is."),
    "input_invalid": (422, "The input does not fit; see errors."),
    "home_unknown": (422, "There is no such home, or it was erased."),
    "member_unknown": (422, "This home has no such member."),
    "recipient_invalid": (422, "Somebody who is to be told cannot be reached, or is named twice."),
    "review_refused": (422, "No source that is set up here could have such a changelist, or key or label cannot be."),
    "item_empty": (422, "There is no text in the item."),
    "item_too_large": (422, "The item is larger than allowed here; save a part of it."),
    "item_unreadable": (422, "The item holds a NUL or half a surrogate pair."),
    "link_invalid": (422, "A link is one http or https address of up to 2,000 characters without a password in it."),
    "too_many_streams": (429, "This key has too many open streams."),
    "internal_error": (500, "Something is broken here; the request_id helps to find it."),
    "rewrite_unavailable": (503, "The rewrite cannot be taken now."),
    "switched_off": (503, "This part of the service is switched off here."),
    "database_away": (503, "The database does not answer; try again."),
    "timed_out": (503, "It took too long; try again."),
    "streams_full": (503, "There are too many open streams here; try again later."),
    "not_ready": (503, "Not everything that is needed is there."),
}
BY_STATUS: Final = {400: "body_malformed", 401: "key_refused", 403: "not_allowed", 404: "not_found",
                    405: "method_not_allowed", 413: "body_too_large", 415: "media_type_refused"}  # fmt: skip


class Misfit(BaseModel):
    """One thing that does not fit: where, and which rule."""

    model_config = ConfigDict(extra="forbid")

    where: Annotated[str, Field(description="such as body.mentions.0; names of ours only")]
    rule: Annotated[str, Field(description="such as missing or string_too_long")]


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: Annotated[str, Field(description="urn:penstock:problem: and the code")]
    code: Annotated[str, Field(description="for programs; it stays the same")]
    title: Annotated[str, Field(description="for people; it may change")]
    status: int
    request_id: Annotated[str, Field(description="as in the header X-Request-Id and in the log")]
    errors: Annotated[list[Misfit] | None, Field(description="with code input_invalid only")] = None
    logins: Annotated[dict[str, str] | None, Field(description="with code not_ready only")] = None


class Refused(HTTPException):
    """Ends a request with the problem of *code*; *more* are members of it beside the usual ones."""

    def __init__(
        self,
        code: str,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(PROBLEMS.get(code, (HTTPStatus.UNPROCESSABLE_ENTITY, ""))[0], headers=dict(headers or {}))
        self.code = code
        self.more = dict(more or {})


def handed(request: Request, name: str) -> Any:
    """The application behind the routes that is called *name*; where there is none, the request is refused."""
    found = getattr(request.app.state, name)
    if found is None:
        raise Refused("switched_off")
    return found


def problem(
    request_id: str, code: str, *, headers: Mapping[str, str] | None = None, more: Mapping[str, Any] | None = None
) -> Response:
    """The response for *code*; one that the table lacks is a refusal of the application's (422)."""
    status, title = PROBLEMS.get(code, (HTTPStatus.UNPROCESSABLE_ENTITY.value, "The request was refused."))
    facts = {"type": TYPE + code, "code": code, "title": title, "status": status, "request_id": request_id}
    body = json.dumps({**facts, **(more or {})})
    return Response(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


async def on_http_exception(request: Request, error: AnyHTTPException) -> Response:
    """Refusals of ours and of the framework's; whatever text the framework has for it is left out."""
    request_id = request.state.request_id
    if isinstance(error, Refused):
        return problem(request_id, error.code, headers=error.headers, more=error.more)
    code = BY_STATUS.get(error.status_code, "internal_error" if error.status_code >= 500 else "bad_request")  # noqa: PLR2004 - where server errors begin
    return problem(request_id, code, headers=error.headers)


async def on_invalid_input(request: Request, error: RequestValidationError) -> Response:
    """Where the input does not fit and which rule it breaks; never what it was."""
    found = error.errors()
    if any(misfit["type"] == "json_invalid" for misfit in found):
        return problem(request.state.request_id, "body_malformed")
    errors = [{"where": place(misfit["loc"]), "rule": misfit["type"]} for misfit in found[:MOST_PLACES]]
    return problem(request.state.request_id, "input_invalid", more={"errors": errors})


async def on_database_away(request: Request, _error: Exception) -> Response:
    """The server is away, restarting or overloaded; nothing is half-done."""
    return problem(request.state.request_id, "database_away", headers={"Retry-After": "2"})


def place(location: Sequence[str | int]) -> str:
    """A place in the input by names of ours; a name that the caller invented ends it."""
    parts: list[str] = []
    for part in location:
        if not isinstance(part, int) and part not in names.KNOWN:
            break
        parts.append(str(part))
    return ".".join(parts)
