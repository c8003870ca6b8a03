"""`penstock serve`: the HTTP API until told to stop.

Exit codes beside those of all commands: 0 after SIGTERM or SIGINT, 128 + the
signal after a second one, 6 a login that no rule of the database binds.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.exits import fail, told

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Mapping

    from penstock.apps.review.application import Reviews
    from penstock.apps.rewrite.application import Rewrites
    from penstock.apps.vault.application import Vault
    from penstock.settings import Settings
    from penstock.store.api_keys import Scope
    from penstock.web.ports import Homes

app = typer.Typer(name="serve", add_completion=False)


@app.command()
def serve(
    *,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json, text, or auto.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept a superuser, BYPASSRLS or owner login.")] = False,
) -> None:
    """Serve the HTTP API until told to stop. The first line printed is the URL.

    Logs in once for each scope: with PENSTOCK_WEB_ORCHESTRATOR_DSN,
    PENSTOCK_WEB_FRONTEND_DSN and PENSTOCK_WEB_OPERATOR_DSN, or on the embedded
    server as the roles themselves. A scope without a login is switched off.
    """
    from penstock.settings import load_settings
    from penstock.telemetry import logs

    with told():
        settings = load_settings(
            web_host=host, web_port=port, log_level=log_level, log_format=log_format, insecure=insecure or None
        )
        logs.configure(settings.log_level, settings.log_format)
        _serve(settings)


def _serve(settings: Settings) -> None:
    try:
        from penstock.web.server import bound_socket
    except ModuleNotFoundError as missing:
        fail(f"The HTTP API needs {missing.name}; install penstock[web,rewrite].")
    from penstock.engine.process import loop_factory

    listening = bound_socket(settings.web_host, settings.web_port)
    with listening, asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_work(settings, _dsns(settings), listening))


async def _work(settings: Settings, dsns: Mapping[Scope, str], listening: socket.socket) -> None:
    from penstock.web import Logins, create_app
    from penstock.web.server import Server

    given = Logins(dsns, insecure=settings.insecure, prepared=settings.prepared_statements)
    # The logins first: what is wrong with them is told before the slower parts are made ready.
    async with (
        given as logins,
        _rewrites(settings, dsns) as rewrites,
        _reviews(settings, dsns) as reviews,
        _vault(settings, dsns) as vault,
    ):
        homes = _homes(rewrites)
        made = create_app(settings, logins, rewriting=rewrites, homes=homes, reviewing=reviews, saving=vault)
        server = Server(made, listening)
        typer.echo(server.url)
        await server.work()


@asynccontextmanager
async def _rewrites(settings: Settings, dsns: Mapping[Scope, str]) -> AsyncIterator[Rewrites | None]:
    """The orchestrator's side of the rewrite application, where it has a login.

    Whoever serves reviews and has no key for texts serves no rewrites.
    Its models of languages are loaded now: the first message would wait for
    them, and everybody else with it.
    """
    from penstock.store.api_keys import Scope

    if Scope.ORCHESTRATOR not in dsns or (settings.text_keys is None and settings.review_sources is not None):
        yield None
        return
    from penstock.apps.rewrite.application import rewrite_app
    from penstock.apps.rewrite.classifier import warm_up

    rewrites = rewrite_app(settings.model_copy(update={"dsn": dsns[Scope.ORCHESTRATOR]}))
    async with rewrites.app:
        await asyncio.to_thread(warm_up, settings.rewrite_languages or None)
        yield rewrites


def _homes(rewrites: Rewrites | None) -> Homes | None:
    """What keeps homes, beside what rewrites."""
    if rewrites is None:
        return None
    from penstock.web.homes import KeptHomes

    return KeptHomes(rewrites)


@asynccontextmanager
async def _reviews(settings: Settings, dsns: Mapping[Scope, str]) -> AsyncIterator[Reviews | None]:
    """The orchestrator's side of the review application, where it has a login and sources."""
    from penstock.store.api_keys import Scope

    if Scope.ORCHESTRATOR not in dsns or settings.review_sources is None:
        yield None
        return
    from penstock.apps.review.application import review_app

    reviews = review_app(settings.model_copy(update={"dsn": dsns[Scope.ORCHESTRATOR]}))
    async with reviews.app:
        yield reviews


@asynccontextmanager
async def _vault(settings: Settings, dsns: Mapping[Scope, str]) -> AsyncIterator[Vault | None]:
    """The orchestrator's side of the vault, where it has a login."""
    from penstock.store.api_keys import Scope

    if Scope.ORCHESTRATOR not in dsns:
        yield None
        return
    from penstock.apps.vault.application import vault_app

    vault = vault_app(settings.model_copy(update={"dsn": dsns[Scope.ORCHESTRATOR]}))
    async with vault.app:
        yield vault


def _dsns(settings: Settings) -> dict[Scope, str]:
    """The login of each scope: as set; where none is, those of the embedded server, made ready. Blocks."""
    from penstock.store.api_keys import ROLES, Scope

    named = {scope: getattr(settings, f"web_{scope}_dsn") for scope in Scope}
    if any(named.values()) or settings.dsn is not None:
        return {scope: dsn for scope, dsn in named.items() if dsn is not None}
    from penstock.cli.first_start import ready_server

    server = ready_server(settings.home)
    return {scope: server.url(user=role) for scope, role in ROLES.items()}
