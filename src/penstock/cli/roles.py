"""`penstock roles`: the five roles of the cluster and their rights in this database.

Exit codes: 0 done, 1 the login may not do it, 2 wrong usage, 3 `list` found
a role missing, 4 the database is away, 5 the schema is missing.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.common import Json, print_json, run, show
from penstock.cli.exits import NOT_FOUND, USAGE, fail
from penstock.contract.texts import is_text

if TYPE_CHECKING:
    from penstock.embedded import EmbeddedServer
    from penstock.settings import Settings

app = typer.Typer(name="roles", help="The roles of the cluster and their rights.", no_args_is_help=True)

ADMIN: Final = "PENSTOCK_ADMIN_DSN"
LOGIN_PASSWORD: Final = "PENSTOCK_LOGIN_PASSWORD"  # noqa: S105 - the name of the variable
GENERATED_BYTES: Final = 32


class Membership(StrEnum):
    """The roles by their short names."""

    ORCHESTRATOR = "orchestrator"
    WORKER = "worker"
    FRONTEND = "frontend"
    OPERATOR = "operator"
    VIEWER = "viewer"


def _seconds(what: str) -> Any:
    return typer.Option(min=0, max=2_000_000, help=f"Seconds {what}; 0 is no limit; by default what the role needs.")


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


@app.command()
def login(
    name: Annotated[str, typer.Argument(show_default=False, help="The login to make, such as worker_1 or ann.")],
    *,
    role: Annotated[Membership, typer.Option(show_default=False, help="The role it is a member of.")],
    connections: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Sessions at once; by default what the role needs.")
    ] = None,
    statement_timeout: Annotated[float | None, _seconds("for a statement")] = None,
    lock_timeout: Annotated[float | None, _seconds("of waiting for a lock")] = None,
    idle_timeout: Annotated[float | None, _seconds("idle in a transaction")] = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Ask for the password.")] = False,
    generate: Annotated[bool, typer.Option("--generate", help="Make a password and print it, once.")] = False,
    as_json: Json = False,
) -> None:
    """Make a login for one person or service: a member of a role, with limits of its own.

    The limits are seat belts, not walls. A session may set its timeouts anew;
    only the number of connections is the server's to keep. What the login may
    do is its role's. For a worker no idle-in-transaction limit is shorter than
    the longest stage of the stored types.

    The password comes from PENSTOCK_LOGIN_PASSWORD, --prompt or --generate;
    without any, the login comes in by other means, such as a certificate.
    Logs in with PENSTOCK_ADMIN_DSN, which needs CREATEROLE, or else with
    PENSTOCK_DSN.
    """
    times = {"statement": statement_timeout, "lock": lock_timeout, "idle_in_transaction": idle_timeout}
    asked: dict[str, Any] = {what: timedelta(seconds=value) for what, value in times.items() if value is not None}
    if connections is not None:
        asked["connections"] = connections
    password = _password(name, prompt=prompt, generate=generate)
    run(_login(name, f"penstock_{role}", asked, password, shown=generate, as_json=as_json))


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


async def _login(
    name: str, role: str, asked: dict[str, Any], password: str | None, *, shown: bool, as_json: bool
) -> None:
    from penstock.settings import load_settings
    from penstock.store import members, roles

    settings = load_settings()
    limits = replace(members.DEFAULTS[role], **asked)
    longest = await members.longest_stage(await _owner_dsn(settings)) if role == roles.WORKER else None
    fitted = members.fitted(limits, longest, asked="idle_in_transaction" in asked)
    await members.create(await _admin_dsn(settings), name, role, fitted, password)
    if as_json:
        secret = {"password": password} if shown else {}
        print_json({"login": name, "role": role, "connections": fitted.connections, **fitted.settings(), **secret})
        return
    typer.echo(f"Made {name}, a member of {role}: at most {fitted.connections} connections.")
    if longest is not None and fitted != limits:
        how_long = "no limit" if longest.limit is None else f"{longest.limit.total_seconds():g} s"
        typer.echo(
            f"Idle in a transaction: {how_long}, as the type {longest.job_type!r} has a stage that takes as long."
        )
    if shown:
        typer.echo(f"Its password, which is not shown again: {password}")


def _password(name: str, *, prompt: bool, generate: bool) -> str | None:
    if prompt and generate:
        fail("Give --prompt or --generate, not both.", USAGE)
    if generate:
        return secrets.token_urlsafe(GENERATED_BYTES)
    if prompt:
        given = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    else:
        given = os.environ.get(LOGIN_PASSWORD)
    return _checked(given) if given else None


def _checked(password: str) -> str:
    if "\0" in password or not is_text(password):
        fail("A password is text in UTF-8, without the character NUL.", USAGE)
    return password


def _passwords(*, prompt: bool) -> dict[str, str]:
    from penstock.store.roles import ROLES

    given: dict[str, str] = {}
    for role in ROLES:
        variable = f"{role.upper()}_PASSWORD"
        if value := os.environ.get(variable):
            given[role] = _checked(value)
        elif prompt:
            given[role] = _checked(typer.prompt(f"Password of {role}", hide_input=True, confirmation_prompt=True))
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
