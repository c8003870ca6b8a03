"""The vault: an item and its job saved in one transaction of SQLAlchemy, the poke after it, a worker that starts.

The handler notes when it began and reads which item it has; no model is asked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

import structlog

from bench.contestant import Contestant, Duty, run
from bench.contestants.penstock import employ
from penstock import Job
from penstock.apps.vault import Vault as Application
from penstock.apps.vault import application, vault_app
from penstock.apps.vault.enrichment import Enricher
from penstock.apps.vault.models import EnrichmentArgs
from penstock.store import migrate

OWNER: Final = uuid4()
STABLE: Final = 5  # the last phase of the roll-out: NOTIFY, and a poll every 30 s


class VaultClient:
    def __init__(self, vault: Application) -> None:
        self._vault = vault

    async def one(self, number: int) -> None:
        await self._vault.create_item(owner_id=OWNER, content=str(number), kind="note")

    wake = one

    async def many(self, numbers: Sequence[int], *, less_urgent: bool = False) -> None:
        for number in numbers:
            await self.one(number)


class Vault(Contestant):
    name = "vault"
    distribution = "penstock"
    schema_of = "vault"
    pending = "select exists (select from penstock.jobs where status in ('queued', 'processing'))"
    phase = STABLE

    async def setup(self, dsn: str) -> None:
        await asyncio.to_thread(migrate.upgrade, dsn, to=migrate.lines())

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncIterator[VaultClient]:
        vault = vault_app(dsn=dsn, vault_phase=self.phase)
        async with vault.app:
            await vault.app.sync_types()
            yield VaultClient(vault)

    def work(self, duty: Duty) -> None:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        run(_work(duty, self.phase))


class _Begun(Enricher):
    """Notes the start; what the item is called is read after that."""

    duty: Duty

    async def enrich(self, job: Job, args: EnrichmentArgs) -> None:
        started = time.time_ns()
        del job
        item = await self._look(args)
        self.duty.region.ran(int(item.content))
        self.duty.region.times[int(item.content)] = started


async def _work(duty: Duty, phase: int) -> None:
    """A worker of the real application, but for the handler."""
    _Begun.duty = duty
    application.Enricher = _Begun  # type: ignore[attr-defined]  # nothing else is done here
    vault = vault_app(dsn=duty.dsn, vault_phase=phase)
    async with vault.app:
        await employ(vault.app.worker(dsn=duty.dsn, concurrency=duty.concurrency or None, insecure=True))


contestant = Vault()
