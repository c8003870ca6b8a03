"""The enrichment of one item: look, ask, look again under lock, store.

A model is asked outside any lock, so a slow provider holds nobody up. Whatever
happened to the item meanwhile is seen under the lock: an item that is not
ENRICHING any more is left as it is, and the job completes all the same (D-53,
D-54). The item and the end of the job commit together or not at all (C-60).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.apps.vault.answers import SCHEMA, found_in
from penstock.apps.vault.items import ItemRepository
from penstock.apps.vault.prompts import prompt
from penstock.apps.vault.statements import sql
from penstock.contract.calls import Execution, Request, Route
from penstock.contract.errors import Failed, LeaseLost
from penstock.contract.failures import FailureClass
from penstock.engine import patience

if TYPE_CHECKING:
    from penstock.apps.vault.application import Vault
    from penstock.apps.vault.models import EnrichmentArgs, SystemItem
    from penstock.engine.job import Job
    from penstock.settings import Settings
    from penstock.store.claims import Transaction

PROMPT_VERSION: Final = "v1"
LANE: Final = "vault"
MOST_CHARACTERS: Final = 40_000  # of an item that a model is shown: its beginning is enough to catalogue it by
MOST_TOKENS: Final = 8_000  # of an answer, and of what a model thinks before it


class Enricher:
    """The handler of the type."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def enrich(self, job: Job, args: EnrichmentArgs) -> None:
        """Enrich the item of *job*; one that is discarded or enriched costs no call (D-52)."""
        item = await patience.persist("vault", lambda: self._look(args))
        if not item.waits:
            return
        answer = await job.ask(request_of(item, route_of(self._vault.app.settings)))
        found = found_in(answer.data)
        async with job.transaction() as connection:
            await hold(connection, job)
            items = ItemRepository(connection)
            locked = await items.get_by_id_for_update_system(args.item_id)
            if locked is not None and locked.waits:
                await items.enriched(args.item_id, found.title, found.enrichment)

    async def _look(self, args: EnrichmentArgs) -> SystemItem:
        async with self._vault.connection() as connection:
            found = await ItemRepository(connection).get_by_id_system(args.item_id)
        if found is None:
            raise Failed(FailureClass.NOT_FOUND, f"there is no item {args.item_id}; a job is made with its item")
        return found


async def hold(connection: Transaction, job: Job) -> None:
    """Lock the job before its item, as everybody does who ends it; a claim that was lost stops here."""
    if await connection.fetchval(sql("jobs/hold"), job.job_id, job.claim_seq) is None:
        raise LeaseLost(job.job_id)


def request_of(item: SystemItem, route: Route) -> Request:
    """The question about *item*; the same item gives the same bytes, so that a retry asks nothing new."""
    chosen = prompt(route.prompt_version)
    cut = len(item.content) > MOST_CHARACTERS
    head = f"kind: {item.kind}{', cut' if cut else ''}"
    return Request(
        route,
        chosen.instructions,
        chosen.fence.around(f"{head}\n{item.content[:MOST_CHARACTERS]}"),
        schema=SCHEMA,
        schema_name="item_enrichment",
        max_output_tokens=MOST_TOKENS,
    )


def route_of(settings: Settings) -> Route:
    """Where the model is that the settings name."""
    more = {"execution": Execution.ASYNC, "prompt_version": PROMPT_VERSION, "lane": LANE}
    return Route.to(settings.vault_model, settings.vault_model_url, **more)
