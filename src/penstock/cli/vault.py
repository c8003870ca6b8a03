"""`penstock vault`: save items, see how they stand, confirm, discard, ask again. No error repeats what was saved.

Exit codes: 0 done, 1 refused as it is (empty, too large, no link), 2 wrong
usage, 3 no such item of this owner, 4 the database is away, 6 refused as the
item stands.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from penstock.cli.common import ORCHESTRATOR, Json, Limit, find_dsn, print_facts, print_json, run, show
from penstock.cli.exits import USAGE, fail, told
from penstock.cli.vault_phase import phase
from penstock.cli.vault_takeover import takeover

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.apps.vault.application import Vault
    from penstock.apps.vault.models import Item

app = typer.Typer(name="vault", help="The vault: saved items and their enrichment.", no_args_is_help=True)
app.command()(phase)
app.add_typer(takeover)

COLUMNS: Final = ("item_id", "kind", "status", "title", "failure_code", "created_at")
KINDS: Final = ("text", "link", "note")
STATUSES: Final = ("ENRICHING", "READY_TO_CONFIRM", "CONFIRMED", "DISCARDED", "ENRICHMENT_FAILED")
STDIN: Final = "-"
LARGEST: Final = 1_048_577  # one byte more than any item may have: enough to refuse it

ItemId = Annotated[UUID, typer.Argument(metavar="ITEM_ID", show_default=False)]
Owner = Annotated[
    UUID, typer.Option(envvar="PENSTOCK_VAULT_OWNER", help="Whose items; or set the variable.", show_default=False)
]


@app.command()
def save(
    content: Annotated[
        str | None, typer.Argument(help="What to save; - reads it from standard input.", show_default=False)
    ] = None,
    *,
    owner: Owner,
    kind: Annotated[str, typer.Option(help="text, link or note.")] = "text",
    file: Annotated[Path | None, typer.Option(help="Save what this file holds.", exists=True, dir_okay=False)] = None,
    key: Annotated[str | None, typer.Option(help="The same key again gives the item it made.")] = None,
    as_json: Json = False,
) -> None:
    """Save an item and print its id; it is enriched a moment later."""
    if kind not in KINDS:
        fail(f"An item is one of {', '.join(KINDS)}; choose one with --kind.", USAGE)
    with told():
        text = _content(content, file)
    item = _done(lambda vault: vault.create_item(owner_id=owner, content=text, kind=kind, key=key))
    print_json({"item_id": item.id, "status": item.status}) if as_json else typer.echo(str(item.id))


@app.command("list")
def list_items(
    *,
    owner: Owner,
    status: Annotated[str | None, typer.Option(help="Only items that stand so, such as READY_TO_CONFIRM.")] = None,
    before: Annotated[UUID | None, typer.Option(help="The last item of the page before.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List items, the newest first."""
    wanted = status.upper() if status else None
    if wanted is not None and wanted not in STATUSES:
        fail(f"There is no such status; choose one of {', '.join(STATUSES)}.", USAGE)

    async def read() -> list[dict[str, Any]]:
        async with _vault() as vault:
            found = await vault.list_items(owner_id=owner, status=wanted, limit=limit, before=before)
        return [_named(asdict(item)) for item in found]

    show(run(read()), COLUMNS, as_json=as_json, empty="No items.")


@app.command("show")
def show_item(item_id: ItemId, *, owner: Owner, as_json: Json = False) -> None:
    """Show one item: what was saved, how it stands, and what was found in it."""
    _print(_done(lambda vault: vault.read_item(owner_id=owner, item_id=item_id)), as_json=as_json, whole=True)


@app.command()
def confirm(item_id: ItemId, *, owner: Owner, as_json: Json = False) -> None:
    """Take what was found as it is."""
    _print(_done(lambda vault: vault.confirm_item(owner_id=owner, item_id=item_id)), as_json=as_json)


@app.command()
def discard(item_id: ItemId, *, owner: Owner, as_json: Json = False) -> None:
    """Want no more of an item, also while it is being enriched."""
    _print(_done(lambda vault: vault.discard_item(owner_id=owner, item_id=item_id)), as_json=as_json)


@app.command()
def enrich(item_id: ItemId, *, owner: Owner, as_json: Json = False) -> None:
    """Ask once more for an enrichment that has failed."""
    _print(_done(lambda vault: vault.enrich_again(owner_id=owner, item_id=item_id)), as_json=as_json)


def _done(wish: Callable[[Vault], Awaitable[Item]]) -> Item:
    async def work() -> Item:
        async with _vault() as vault:
            return await wish(vault)

    return run(work())


@asynccontextmanager
async def _vault() -> AsyncIterator[Vault]:
    """The application as its orchestrator."""
    from penstock.apps.vault.application import vault_app
    from penstock.settings import load_settings
    from penstock.telemetry import logs

    settings = load_settings()
    logs.configure("error", settings.log_format)
    vault = vault_app(settings.model_copy(update={"dsn": await find_dsn(settings, ORCHESTRATOR)}))
    async with vault.app:
        yield vault


def _content(given: str | None, file: Path | None) -> str:
    """What to save: the argument, a file, or standard input; no more of it than any item may have."""
    if (given is None) == (file is None):
        fail("Say what to save: as an argument, with --file, or - for standard input.", USAGE)
    if file is None and given != STDIN:
        return str(given)
    if file is None:
        return _text(sys.stdin.buffer.read(LARGEST))
    with file.open("rb") as source:
        return _text(source.read(LARGEST))


def _text(raw: bytes) -> str:
    if len(raw) == LARGEST:
        fail("What there is to save is larger than 1 MiB, the most that an item may have; save a part of it.")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        fail("What there is to save is no text in UTF-8; the vault keeps text only.")


def _print(item: Item, *, as_json: bool, whole: bool = False) -> None:
    facts = _named(asdict(item))
    found = None if item.enrichment is None else item.enrichment.model_dump(mode="json")
    if as_json:
        print_json({**facts, "enrichment": found} if whole else {"item_id": item.id, "status": item.status})
        return
    if not whole:
        typer.echo(f"{item.id} is {item.status}.")
        return
    names = [f"{entity['name']} ({entity['kind']})" for entity in (found or {}).pop("entities", [])]
    print_facts({**facts, "enrichment": None, **(found or {}), "entities": names or None, "content": item.content})


def _named(facts: dict[str, Any]) -> dict[str, Any]:
    return {"item_id": facts.pop("id"), **facts}
