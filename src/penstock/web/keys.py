"""Who calls. A key is checked before the body is read, so a stranger costs one look-up and nothing else.

Missing, malformed, unknown, wrong, revoked and expired are one answer (401);
a key of another scope and one bound to another home are another (403).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from penstock.store import api_keys
from penstock.web.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from uuid import UUID

    from penstock.store.api_keys import Credential, Scope
    from penstock.web.logins import Logins

PATIENCE: Final = 30.0  # seconds that a request may take
WHO: Final = {"WWW-Authenticate": 'Bearer realm="penstock"'}
SINGLE: Final = ("content-type", "content-encoding", "idempotency-key", "last-event-id")
JSON: Final = "application/json"
SCHEME: Final = "key"  # its name in the OpenAPI document


@dataclass(frozen=True, slots=True)
class Caller:
    """A key that was accepted."""

    scope: Scope
    home_id: UUID | None
    user_id: UUID | None
    shown: Credential

    @property
    def key_id(self) -> str:
        """The printable half of the key."""
        return self.shown.key_id

    def require_home(self, home_id: UUID) -> None:
        """Refuse what concerns another home than the key's; a key without one is for all."""
        if self.home_id not in (None, home_id):
            raise Refused("not_allowed")


async def admitted(request: Request, scope: Scope) -> Caller:
    """The caller, if its key is accepted and of *scope*."""
    logins: Logins = request.app.state.logins
    pool = logins.pool(scope)
    shown = _shown(request)
    bound = None if shown is None else await api_keys.check(pool, shown)
    if shown is None or bound is None:
        raise Refused("key_refused", headers=WHO)
    caller = Caller(bound.scope, bound.home_id, bound.user_id, shown)
    request.state.caller = caller
    if bound.scope is not scope:
        raise Refused("not_allowed")
    return caller


def _shown(request: Request) -> Credential | None:
    given = request.headers.getlist("authorization")
    kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return api_keys.credential(token.strip()) if kind.lower() == "bearer" else None


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


Calling = Annotated[Caller, Depends(_caller)]


def routes_for(scope: Scope) -> type[APIRoute]:
    """The class of routes that are for keys of *scope* alone."""

    class Guarded(APIRoute):
        """Looks at the key, then at the kind of body, then lets the request in, for a limited time."""

        needs = scope

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            inner = super().get_route_handler()
            takes_body = self.body_field is not None

            async def handle(request: Request) -> Response:
                try:
                    async with asyncio.timeout(PATIENCE):
                        await admitted(request, scope)
                        require_one_of_each(request)
                        if takes_body:
                            require_json(request)
                        return await inner(request)
                except TimeoutError:
                    raise Refused("timed_out", headers={"Retry-After": "2"}) from None

            return handle

    return Guarded


def require_one_of_each(request: Request) -> None:
    """Refuse a header that is given twice: two layers may each believe another one."""
    if any(len(request.headers.getlist(name)) > 1 for name in SINGLE):
        raise Refused("bad_request")


def require_json(request: Request) -> None:
    """Refuse any other kind of body, and one that is packed."""
    kind, _, rest = request.headers.get("content-type", "").partition(";")
    charset = rest.replace(" ", "").replace('"', "").lower()
    packed = request.headers.get("content-encoding", "identity").lower() != "identity"
    if packed or kind.strip().lower() != JSON or charset not in ("", "charset=utf-8"):
        raise Refused("media_type_refused")
