"""Resend: POST /emails with its idempotency keys, GET /emails/{id}."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.emulator.clock import iso
from penstock.emulator.deliveries import Delivery, Known
from penstock.emulator.desk import json_body, project_of, refusing
from penstock.emulator.replies import Refused
from penstock.emulator.world import World

NAME: Final = "resend"
KEY_SECONDS: Final = 24 * 3600.0
SENDING_ONLY: Final = "re_sending"  # how a key begins that may not read
_LONGEST_KEY: Final = 256
_MOST_RECIPIENTS: Final = 50
_ADDRESS: Final = re.compile(r"(?:[^<>]* <)?[^\s<>@,]+@[^\s<>@,]+\.[^\s<>@,]+>?")
_FORM: Final = "The email address needs to follow the `email@example.com` or `Name <email@example.com>` format."


class Resend:
    """The part of the API that a sender of mails needs."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """Where it answers."""
        return [
            Route("/emails", refusing(NAME, self.send), methods=["POST"]),
            Route("/emails/{email_id}", refusing(NAME, self.retrieve), methods=["GET"]),
        ]

    async def send(self, request: Request) -> Response:
        """Deliver a mail; the same body under the same key gets the first one's id again."""
        self._key(request)
        token, body = request.headers.get("idempotency-key", ""), await request.body()
        if len(token) > _LONGEST_KEY:
            raise Refused(400, "invalid_idempotency_key", "The key must be between 1-256 chars.")
        known = self._known(token)
        if known is not None and known.body != body:
            message = "Same idempotency key used with a different request payload."
            raise Refused(409, "invalid_idempotent_request", message)
        if known is None:
            known = self._deliver(token, body, _checked(await json_body(request)))
        return JSONResponse({"id": known.identity})

    async def retrieve(self, request: Request) -> Response:
        """What became of a mail, for a key that may read."""
        if self._key(request).startswith(SENDING_ONLY):
            raise Refused(401, "restricted_api_key", "This API key is restricted to only send emails")
        found = self._world.deliveries.find(NAME, request.path_params["email_id"])
        if found is None:
            raise Refused(404, "not_found", "Email not found")
        created = iso(found.at)
        return JSONResponse(
            {"object": "email", "id": found.identity, "to": [found.address], "created_at": created}
            | {"last_event": "delivered", "cc": [], "bcc": [], "reply_to": [], "scheduled_at": None}
        )

    def _key(self, request: Request) -> str:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not key:
            raise Refused(401, "missing_api_key", "Missing API Key")
        if project_of(self._world, key) is None:
            raise Refused(403, "invalid_api_key", "API key is invalid")
        return key

    def _known(self, token: str) -> Known | None:
        known = self._world.deliveries.keys.get(token)
        return known if known is not None and self._world.clock.now() < known.at + KEY_SECONDS else None

    def _deliver(self, token: str, raw: bytes, recipients: list[str]) -> Known:
        world = self._world
        made = Known(raw, world.new_id("mail_"), world.clock.now())
        if token:
            world.deliveries.keys[token] = made
        world.deliveries.add(Delivery(NAME, token or made.identity, made.identity, recipients[0], raw, made.at))
        return made


def _checked(body: dict[str, Any]) -> list[str]:
    """The recipients of a mail that can be sent."""
    for name in ("from", "to", "subject"):
        if not body.get(name):
            raise Refused(422, "missing_required_field", f"Missing `{name}` field.")
    if not (body.get("html") or body.get("text")):
        raise Refused(422, "missing_required_field", "Missing `html` or `text` field.")
    recipients = body["to"] if isinstance(body["to"], list) else [body["to"]]
    if not all(isinstance(each, str) and _ADDRESS.fullmatch(each) for each in recipients):
        raise Refused(422, "validation_error", f"Invalid `to` field. {_FORM}")
    if len(recipients) > _MOST_RECIPIENTS:
        raise Refused(422, "validation_error", "The maximum number of items in `to` is 50.")
    if not _ADDRESS.fullmatch(str(body["from"])):
        raise Refused(422, "validation_error", f"Invalid `from` field. {_FORM}")
    return recipients
