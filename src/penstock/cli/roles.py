"""`penstock roles`: the five roles of the cluster and their rights in this database.

Exit codes: 0 done, 1 the login may not do it, 2 wrong usage, 3 `list` found
a role missing, 4 the database is away, 5 the schema is missing.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.common import Json, print_json, run, show
from penstock.cli.exits import NOT_FOUND, USAGE, fail
from penstock.contract.texts import is_text

if TYPE_CHECKING:
    from penstock.embedded import EmbeddedServer
    from penstock.settings import Settings

app = typer.Typer(name="roles", help="The roles of the cluster and their rights.", no_args_is_help=True)

ADMIN: Final = "PENSTOCK_ADMIN_DSN"


@app.command()
def create(
    *,
    prompt: Annotated[bool, typer.Option("--prompt", help="Ask for each role's password.")] = False,
    reset_passwords: Annotated[
        bool, typer.Option("--reset-passwords", help="Also give roles that exist the passwords given.")
    ] = False,
    revoke_temporary: Annotated[
        bool,
        typer.Option(
            "--revoke-temporary",
            help="Only the database's owner makes temporary objects from now on; run as that owner.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the roles that are missing, and give all of them their rights in this database.

    Logs in with PENSTOCK_ADMIN_DSN, which needs CREATEROLE, or else with
    PENSTOCK_DSN. Passwords come from PENSTOCK_WORKER_PASSWORD,
    PENSTOCK_ORCHESTRATOR_PASSWORD, PENSTOCK_FRONTEND_PASSWORD,
    PENSTOCK_OPERATOR_PASSWORD and PENSTOCK_VIEWER_PASSWORD, or from --prompt;
    never from the command line, where other users of the machine can read
    them. A role without one logs in by other means, such as a certificate or
    the socket's peer.
    """
    run(_create(_passwords(prompt=prompt), reset=reset_passwords, revoke=revoke_temporary, as_json=as_json))


@app.command()
def grant(*, as_json: Json = False) -> None:
    """Give the roles that exist their rights in this database; asks for the schema's owner."""
    run(_grant(as_json=as_json))


@app.command("list")
def list_(*, as_json: Json = False) -> None:
    """Show the five roles; exit code 3 when one is missing."""
    run(_list(as_json=as_json))


async def _create(passwords: dict[str, str], *, reset: bool, revoke: bool, as_json: bool) -> None:
    from penstock.settings import load_settings
    from penstock.store import roles, temporary

    settings = load_settings()
    made = await roles.create_roles(await _admin_dsn(settings), passwords, reset_passwords=reset)
    owner = await _owner_dsn(settings)
    granted = await roles.apply_grants(owner) if await _has_schema(owner) else []
    revoked = await temporary.revoke(owner) if revoke else None
    if as_json:
        print_json({"created": made, "granted": granted, **({"temporary_revoked": revoked} if revoke else {})})
        return
    typer.echo(f"Created {', '.join(made)}." if made else "All five roles were there.")
    if not granted:
        typer.echo("There is no schema here yet; `penstock migrate up` gives them their rights.")
    if revoked is not None:
        typer.echo(f"Only its owner may make temporary objects in {revoked}.")


async def _grant(*, as_json: bool) -> None:
    from penstock.settings import load_settings
    from penstock.store import roles

    granted = await roles.apply_grants(await _owner_dsn(load_settings()))
    if as_json:
        print_json({"granted": granted})
    else:
        typer.echo(f"Granted to {', '.join(granted)}." if granted else "No role is there; run `penstock roles create`.")


async def _list(*, as_json: bool) -> None:
    from penstock.settings import load_settings
    from penstock.store import roles

    found = await roles.listed(await _owner_dsn(load_settings()))
    columns = ["name", "exists", "login", "unsafe", "granted", "temporary"]
    show([{name: getattr(role, name) for name in columns} for role in found], columns, as_json=as_json)
    if not all(role.exists for role in found):
        raise typer.Exit(NOT_FOUND)


def _passwords(*, prompt: bool) -> dict[str, str]:
    from penstock.store.roles import ROLES

    given: dict[str, str] = {}
    for role in ROLES:
        variable = f"{role.upper()}_PASSWORD"
        if value := os.environ.get(variable):
            given[role] = value
        elif prompt:
            given[role] = typer.prompt(f"Password of {role}", hide_input=True, confirmation_prompt=True)
    if any("\0" in password or not is_text(password) for password in given.values()):
        fail("A password is text in UTF-8, without the character NUL.", USAGE)
    return given


async def _has_schema(dsn: str) -> bool:
    from penstock.store import connect, schema

    connection = await connect.connect(dsn, prepared=False)
    try:
        return await schema.version(connection) is not None
    finally:
        await connection.close()


async def _admin_dsn(settings: Settings) -> str:
    from penstock.settings import read_dsn

    return read_dsn(ADMIN) or settings.dsn or (await _embedded(settings)).superuser_url()


async def _owner_dsn(settings: Settings) -> str:
    from penstock.settings import read_dsn

    return settings.dsn or read_dsn(ADMIN) or (await _embedded(settings)).url()


async def _embedded(settings: Settings) -> EmbeddedServer:
    from penstock.embedded import ensure_started

    return await asyncio.to_thread(ensure_started, settings.home)
