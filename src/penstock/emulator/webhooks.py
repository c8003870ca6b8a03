"""A receiver of webhooks that checks every signature by the text of Standard Webhooks, with no library of anybody's."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.emulator.deliveries import Delivery
from penstock.emulator.desk import refusing
from penstock.emulator.replies import Refused
from penstock.emulator.world import World

NAME: Final = "webhook"
SECRET: Final = "whsec_" + base64.b64encode(b"a secret for the emulator only..").decode()
TOLERANCE: Final = 300.0  # seconds that a timestamp may be off, either way
_PREFIX: Final = "msg_"


class Receiver:
    """Takes webhooks under any name: /webhook/alice, /webhook/team/bob."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """Where it answers."""
        return [Route("/{name:path}", refusing(NAME, self.take), methods=["POST"])]

    async def take(self, request: Request) -> Response:
        """Take a message whose signature fits."""
        body, identity = await request.body(), request.headers.get("webhook-id", "")
        if not signed(self._world.settings.webhook_secret, request.headers, body):
            raise Refused(401, "unauthorized", "The signature does not fit.")
        name = str(request.path_params["name"])
        token = identity.removeprefix(_PREFIX)
        self._world.deliveries.add(Delivery(NAME, token, identity, name, body, self._world.clock.now()))
        return Response(status_code=204)


def signed(secret: str, headers: object, body: bytes) -> bool:
    """Whether one of the signatures is that of the id, the time and the body under *secret*, and the time is ours."""
    get = getattr(headers, "get", lambda _name, default: default)
    identity, moment = str(get("webhook-id", "")), str(get("webhook-timestamp", ""))
    if not identity or not moment.isdigit() or abs(time.time() - int(moment)) > TOLERANCE:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = identity.encode() + b"." + moment.encode() + b"." + body
    wanted = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(wanted, each) for each in str(get("webhook-signature", "")).split(" "))
