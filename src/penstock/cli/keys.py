"""`penstock keys`: keys of the HTTP API, made, listed and revoked.

Exit codes beside those of all commands: 3 no key of that id, 6 this login may
not do it: keys are made by penstock_operator or the owner of the schema.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from penstock.cli.common import Json, Who, database, print_facts, print_json, run, show
from penstock.cli.exits import USAGE, fail
from penstock.contract.errors import NotFound
from penstock.store.api_keys import Scope

app = typer.Typer(name="keys", help="Keys of the HTTP API.", no_args_is_help=True)

COLUMNS: Final = ("key_id", "scope", "state", "name", "home_id", "user_id", "created_at", "expires_at", "last_used_at")
MOST_LETTERS: Final = 100


@app.command()
def create(
    *,
    scope: Annotated[Scope, typer.Option(help="What the key is for.", show_default=False)],
    home: Annotated[UUID | None, typer.Option(help="The home that it is bound to; a frontend's always is.")] = None,
    user: Annotated[UUID | None, typer.Option(help="The user that a frontend speaks for.")] = None,
    name: Annotated[str, typer.Option(help="Where it will be used; shown in the list.")] = "",
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Valid for so long; else until revoked.")] = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Make a key and show it, this once: only its hash is kept."""
    _check(scope, home, user, name, who)
    valid = None if days is None else timedelta(days=days)
    run(_create(as_json=as_json, scope=scope, home_id=home, user_id=user, name=name, who=who, valid=valid))


@app.command("list")
def list_keys(*, as_json: Json = False) -> None:
    """List the keys, the newest first, without their secrets."""
    run(_list(as_json=as_json))


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(metavar="KEY_ID", show_default=False)], *, who: Who) -> None:
    """Refuse a key from now on; streams that it opened end."""
    run(_revoke(key_id, who))


async def _create(*, as_json: bool, **wanted: Any) -> None:
    from penstock.store import api_keys

    token = api_keys.new_token()
    made = api_keys.credential(token)
    assert made is not None  # noqa: S101 - it was made a line above
    async with database() as db:
        created = await api_keys.create(db, made, **wanted)
    expires = None if wanted["valid"] is None else created + wanted["valid"]
    facts = {"key": token, "key_id": made.key_id, "scope": str(wanted["scope"]), "home_id": wanted["home_id"],
             "user_id": wanted["user_id"], "name": wanted["name"] or None, "expires_at": expires}  # fmt: skip
    if as_json:
        print_json(facts)
        return
    print_facts(facts)
    typer.echo("The key is shown this once; send it as `Authorization: Bearer KEY`.", err=True)


async def _list(*, as_json: bool) -> None:
    from penstock.store import api_keys

    async with database() as db:
        found = await api_keys.listed(db)
    show([dict(row) for row in found], COLUMNS, as_json=as_json, empty="No keys; `penstock keys create` makes one.")


async def _revoke(key_id: str, who: str) -> None:
    from penstock.store import api_keys

    async with database() as db:
        revoked = await api_keys.revoke(db, key_id, who=who)
    if revoked is None:
        raise NotFound("key", repr(key_id[:20]))
    typer.echo(f"{key_id} is refused since {revoked:%Y-%m-%d %H:%M:%S} UTC.")


def _check(scope: Scope, home: UUID | None, user: UUID | None, name: str, who: str) -> None:
    """Refuse a binding that the scope does not have, before the database does."""
    if scope is Scope.FRONTEND and (home is None or user is None):
        fail("A frontend's key speaks for one user of one home; give --home and --user.", USAGE)
    if scope is not Scope.FRONTEND and user is not None:
        fail(f"An {scope} speaks for no user; leave --user out.", USAGE)
    if scope is Scope.OPERATOR and home is not None:
        fail("An operator sees all homes; leave --home out.", USAGE)
    if not (name + who).isprintable() or len(name) > MOST_LETTERS or not 1 <= len(who) <= MOST_LETTERS:
        fail(f"--name and --who have up to {MOST_LETTERS} printable characters.", USAGE)
