"""All providers and channels under one roof: /openai, /gemini, /anthropic, /resend, /webhook and /_emulator."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.types import ASGIApp

from penstock.emulator.admin import Admin
from penstock.emulator.anthropic.routes import Messages
from penstock.emulator.gemini import batches as gemini_batches
from penstock.emulator.gemini import calls as gemini_calls
from penstock.emulator.openai import batches as openai_batches
from penstock.emulator.openai import calls as openai_calls
from penstock.emulator.replies import error_body
from penstock.emulator.resend import Resend
from penstock.emulator.webhooks import Receiver
from penstock.emulator.wire import Gate
from penstock.emulator.world import World


def application(world: World) -> ASGIApp:
    """The ASGI application over *world*."""
    mounts = [
        Mount("/openai", routes=[*openai_calls.Calls(world).routes(), *openai_batches.Batches(world).routes()]),
        Mount("/gemini", routes=[*gemini_calls.Calls(world).routes(), *gemini_batches.Batches(world).routes()]),
        Mount("/anthropic", routes=Messages(world).routes()),
        Mount("/resend", routes=Resend(world).routes()),
        Mount("/webhook", routes=Receiver(world).routes()),
    ]
    handlers = {404: _unknown, 405: _unknown}
    return Gate(Starlette(routes=[*mounts, *Admin(world).routes()], exception_handlers=handlers), world)


async def _unknown(request: Request, _error: Exception) -> Response:
    """A path that no provider has here: 404 in the words of whoever was asked."""
    provider = request.url.path.split("/")[1]
    message = f"Invalid URL ({request.method} {request.url.path})"
    return JSONResponse(error_body(provider, 404, None, message), 404)
