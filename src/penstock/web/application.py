"""The ASGI application, put together: layers from outside to inside, routes, and what lives as long as it does."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from penstock.store import connect
from penstock.store.api_keys import Scope
from penstock.version import VERSION
from penstock.web import health, items, problems, reviews, rewrite
from penstock.web.cap import Cap
from penstock.web.documents import document
from penstock.web.gate import Gate
from penstock.web.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi.telemetry import TelemetryConfig

    from penstock.settings import Settings
    from penstock.web.logins import Logins
    from penstock.web.ports import Homes, Items, Reviewing, Rewriting

# FastAPI would give paths, queries and messages of exceptions to whatever OpenTelemetry the process has.
SILENT: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def create_app(
    settings: Settings,
    logins: Logins,
    *,
    rewriting: Rewriting | None = None,
    homes: Homes | None = None,
    reviewing: Reviewing | None = None,
    saving: Items | None = None,
    streams: Streams | None = None,
) -> FastAPI:
    """The API over *logins*, in front of the applications that it is handed.

    Rewrites go to *rewriting*, homes to *homes*, reviews to *reviewing* and
    saved items to *saving*. What is handed nobody is switched off: its routes
    answer 503.

    The application connects when it starts and disconnects when it stops
    (ASGI lifespan). Without *streams* it makes its own.
    """
    app = FastAPI(
        title="Penstock",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=SILENT,
        middleware=[Middleware(Gate), Middleware(Cap, max_bytes=settings.web_max_bytes)],
        lifespan=_lifespan,
    )
    app.state.logins = logins
    app.state.rewriting = rewriting
    app.state.homes = homes
    app.state.reviewing = reviewing
    app.state.items = saving
    app.state.streams = streams or streams_of(settings, logins)
    for router in (health.router, rewrite.orchestrators, rewrite.frontends, reviews.router, items.router):
        app.router.routes.extend(router.routes)  # as they are: `include_router` would hide them from the document
    _tell_problems(app)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]  # FastAPI's own way to replace it
    return app


def streams_of(settings: Settings, logins: Logins) -> Streams | None:
    """The streams over the frontend's login; none where it is switched off."""
    dsn = logins.dsns.get(Scope.FRONTEND)
    if dsn is None:
        return None
    return Streams(
        lambda: logins.pool(Scope.FRONTEND), listen_dsn=settings.listen_dsn or dsn, most=settings.web_max_streams
    )


def _tell_problems(app: FastAPI) -> None:
    app.add_exception_handler(HTTPException, problems.on_http_exception)  # type: ignore[arg-type]  # Starlette types all handlers alike
    app.add_exception_handler(RequestValidationError, problems.on_invalid_input)  # type: ignore[arg-type]  # the same
    for kind in connect.AWAY:
        app.add_exception_handler(kind, problems.on_database_away)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    streams: Streams | None = app.state.streams
    await app.state.logins.open()
    try:
        if streams is not None:
            await streams.start()
        yield
    finally:
        if streams is not None:
            await streams.stop()
        await app.state.logins.close()
