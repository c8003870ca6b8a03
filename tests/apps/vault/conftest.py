"""The vault end to end: both sides under their own logins, a real adapter, a provider that fails by script."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from penstock.apps.vault import Item, Vault, vault_app
from penstock.emulator import Emulator
from penstock.emulator.clock import Clock
from penstock.store import clock
from penstock.store.roles import ORCHESTRATOR, WORKER
from penstock.testing.inline import InlineWorker

ANSWER: dict[str, Any] = {
    "title": "A walk to Lucerne", "summary": "Somebody walked to Lucerne.", "tags": ["walking", "Lucerne"],
    "language": "en", "entities": [{"name": "Lucerne", "kind": "place"}],
}  # fmt: skip


@dataclass
class World:
    """Two sides, one database, one provider."""

    people: Vault
    worker: Vault
    owner: asyncpg.Connection[Any]
    emulator: Emulator
    log: StringIO
    person: UUID = field(default_factory=uuid4)
    hands: dict[str, InlineWorker] = field(default_factory=dict)

    async def save(self, content: str | None = None, kind: str = "note") -> Item:
        """An item of the person, with a word in it that can be found wherever it leaks to."""
        text = content or f"Walked to Lucerne today. canary-{secrets.token_hex(6)}"
        return await self.people.create_item(owner_id=self.person, content=text, kind=kind)

    async def item(self, item: Item | UUID) -> Item:
        """The item as it stands."""
        item_id = item.id if isinstance(item, Item) else item
        return await self.people.read_item(owner_id=self.person, item_id=item_id)

    async def status(self, item: Item) -> str:
        """Its status."""
        return str((await self.item(item)).status)

    async def hand(self, name: str = "one") -> InlineWorker:
        """A worker by name, opened when first asked for."""
        if name not in self.hands:
            app = self.worker.app
            made = InlineWorker(
                await app.dsn(), list(app.types), app.settings, name=name, concurrency=5, adapters=lambda: app.adapters
            )
            await made.open()
            self.hands[name] = made
        return self.hands[name]

    async def work(self, name: str = "one") -> int:
        """Run what is due now; returns how many claims it took."""
        return await (await self.hand(name)).work()

    async def pass_time(self, **span: float) -> None:
        """For the database and for everybody who asks it."""
        await clock.wind(self.owner, timedelta(**span))

    async def job(self, item: Item, number: int = 1) -> asyncpg.Record:
        """The job of a round."""
        key = f"enrichment:{item.id}" + (f"#{number}" if number > 1 else "")
        row: asyncpg.Record | None = await self.owner.fetchrow(
            "select * from penstock.jobs where idempotency_key = $1", key
        )
        assert row is not None
        return row

    async def row(self, item: Item) -> dict[str, Any]:
        """The row of an item, whole."""
        row = await self.owner.fetchrow("select * from vault.items where id = $1", item.id)
        assert row is not None
        return dict(row)

    async def counted(self, table: str) -> int:
        """How many rows a table has."""
        return int(await self.owner.fetchval(f"select count(*) from {table}"))

    def asked(self) -> int:
        """How often the model was asked."""
        return len(self.emulator.calls)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of the log of one event."""
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == name]

    async def leaks(self, needle: str) -> list[str]:
        """Where *needle* stands outside of vault.items: any table, and the log."""
        tables = await self.owner.fetch(
            "select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n "
            "on n.oid = c.relnamespace where c.relkind in ('r', 'p') and n.nspname in ('penstock', 'vault', 'public')"
        )
        found = ["log"] if needle in self.log.getvalue() else []
        for name in (row["name"] for row in tables if row["name"] != "vault.items"):
            hit = await self.owner.fetchval(
                f"select exists (select from {name} t where t::text like $1)", f"%{needle}%"
            )
            found += [name] if hit else []
        return found


@pytest.fixture(scope="module")
def started() -> Iterator[Emulator]:
    """One server for all tests of a module."""
    with Emulator(frozen=True) as server:
        yield server


@pytest.fixture
def emulator(started: Emulator) -> Emulator:
    """The same server, with nothing of the test before."""
    started.reset()
    started.world.clock = Clock(frozen=True)
    return started


@asynccontextmanager
async def opened_world(
    dsn: str, role_dsn: Callable[[str], str], emulator: Emulator, log: StringIO, **settings: Any
) -> AsyncIterator[World]:
    """A world that is closed again."""
    given = {
        "openai_api_key": "any", "anthropic_api_key": "any", "gemini_api_key": "any",
        "vault_model_url": emulator.openai_base_url, "grace_seconds": 5, **settings,
    }  # fmt: skip
    people, worker = vault_app(dsn=role_dsn(ORCHESTRATOR), **given), vault_app(dsn=role_dsn(WORKER), **given)
    await worker.app.open()
    await worker.app.sync_types()
    await people.app.open()
    world = World(people, worker, await asyncpg.connect(dsn), emulator, log)
    try:
        yield world
    finally:
        for hand in world.hands.values():
            await hand.close()
        await world.owner.close()
        await people.app.close()
        await worker.app.close()


@pytest.fixture
async def world(dsn: str, role_dsn: Callable[[str], str], emulator: Emulator, log: StringIO) -> AsyncIterator[World]:
    """A world whose model is the emulated one of OpenAI."""
    async with opened_world(dsn, role_dsn, emulator, log) as made:
        yield made
