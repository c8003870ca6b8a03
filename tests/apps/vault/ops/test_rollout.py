"""A walk through the phases of the roll-out and back, while somebody saves items all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from penstock.apps.vault import Vault, vault_app
from penstock.apps.vault.migrations import LINE
from penstock.emulator import Emulator
from penstock.store import migrate
from penstock.store.roles import ORCHESTRATOR, WORKER
from tests.apps.vault.ops.conftest import until, working

WALK = (1, 2, 3, 4, 5, 3, 2, 1)
EACH = 3  # items that are saved in each phase, and one while nobody works
PERSON = uuid4()


class Saver:
    """Saves items, whatever the workers do; who it is may be deployed anew at any moment."""

    def __init__(self) -> None:
        self.saved = 0

    async def save(self, vault: Vault, count: int) -> None:
        for _ in range(count):
            await vault.create_item(owner_id=PERSON, content=f"Item {self.saved}, saved in the middle of it all.")
            self.saved += 1


@pytest.mark.contract("D-70", "D-71", "D-72", "D-73", "D-19")
async def test_items_that_keep_arriving_through_all_phases_and_back_are_all_enriched_once(
    dsn: str, role_dsn: Callable[[str], str], emulator: Emulator
) -> None:
    owner, saver = await asyncpg.connect(dsn), Saver()
    for phase in WALK:
        given: dict[str, Any] = {
            "openai_api_key": "any", "vault_model_url": emulator.openai_base_url, "vault_phase": phase,
        }  # fmt: skip
        people, workers = vault_app(dsn=role_dsn(ORCHESTRATOR), **given), vault_app(dsn=role_dsn(WORKER), **given)
        async with workers.app, people.app:
            await workers.app.sync_types()
            heard = await walked(owner, dsn, people, workers, saver)
            if phase == 1:  # at both ends of the walk
                await back_to_the_schema(owner, dsn, people, saver)
                async with working(workers):
                    await until(owner, "count(*) = $1 from vault.items where status = 'READY_TO_CONFIRM'", saver.saved)
        assert bool(heard) is (phase > 1)
        expected = 2.0 if phase < 3 else 30.0
        assert workers.app.settings.poll_seconds == expected
    statuses = await owner.fetch("select status, count(*) from vault.items group by 1")
    assert [tuple(row) for row in statuses] == [("READY_TO_CONFIRM", saver.saved)]
    jobs = await owner.fetch("select status, count(*), sum(attempt_count) from penstock.jobs group by 1")
    assert [tuple(row) for row in jobs] == [("completed", saver.saved, 0)]
    assert len(emulator.calls) == saver.saved == len(WALK) * (EACH + 1) + WALK.count(1) * 2
    await owner.close()


async def back_to_the_schema(owner: asyncpg.Connection[Any], dsn: str, people: Vault, saver: Saver) -> None:
    """Phase 0, taken back and done again: a job of before the step down, and one that comes while it is down."""
    await saver.save(people, 1)
    await asyncio.to_thread(migrate.downgrade, dsn, "0001", of=[LINE])
    rows = await owner.fetch("select status, count(*) from vault.enrichment_outbox group by 1 order by 1")
    assert [tuple(row) for row in rows] == [("DONE", saver.saved - 1), ("PENDING", 1)]
    await saver.save(people, 1)
    await asyncio.to_thread(migrate.upgrade, dsn, to=[LINE])


async def walked(owner: asyncpg.Connection[Any], dsn: str, people: Vault, workers: Vault, saver: Saver) -> list[object]:
    """One phase: an item waits for the worker, others come while it runs, and it stops in the middle of them."""
    heard: list[object] = []
    listener = await asyncpg.connect(dsn)
    await listener.add_listener("litevault_jobs", lambda *said: heard.append(said))
    await saver.save(people, 1)
    async with working(workers) as worker:
        await until(owner, "count(*) = $1 from vault.items where status = 'READY_TO_CONFIRM'", saver.saved)
        arriving = asyncio.create_task(saver.save(people, EACH))
        if people.app.settings.notify == "off":
            await arriving
            worker._on_timer()  # two seconds later
        await until(owner, "count(*) > $1 from vault.items where status = 'READY_TO_CONFIRM'", saver.saved - EACH)
    await arriving
    await people.app.close()  # sends what is left
    await listener.fetchval("select 1")
    await listener.close()
    return heard
