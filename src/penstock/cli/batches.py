"""`penstock batches`: provider batches, their items, ages and deadlines; and how to call one off."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer

from penstock.cli.common import Json, Limit, database, print_facts, print_json, run, show

app = typer.Typer(name="batches", help="Provider batches and their items.", no_args_is_help=True)

COLUMNS = (
    "batch_id", "state", "job_type", "model", "provider_status", "item_count", "open_items", "completed_items",
    "retried_items", "failed_items", "late_items", "cost", "age", "time_left",
)  # fmt: skip
ITEM_COLUMNS = (
    "batch_item_index", "job_id", "attempt", "state", "code", "provider_at", "settled_at", "input_tokens",
    "output_tokens", "cost",
)  # fmt: skip
MICROS = 1_000_000
BatchId = Annotated[UUID, typer.Argument(metavar="BATCH_ID", show_default=False)]


class BatchState(StrEnum):
    """Where a batch stands; `open` is everything that is not over."""

    OPEN = "open"
    BUILDING = "building"
    UNCERTAIN = "uncertain"
    SUBMITTED = "submitted"
    COLLECTED = "collected"
    ABANDONED = "abandoned"


@app.command("list")
def list_batches(
    *,
    job_type: Annotated[str | None, typer.Option("--type", help="Only batches of this type.")] = None,
    state: Annotated[BatchState | None, typer.Option(help="Only this state; open: not over yet.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List batches, the newest first: what became of their items, how old they are, how long they may still take."""
    run(_list(job_type, state, limit, as_json=as_json))


async def _list(job_type: str | None, state: BatchState | None, limit: int, *, as_json: bool) -> None:
    from penstock.store import batches

    async with database() as db:
        found = await batches.listed(db, job_type=job_type, state=state and str(state), limit=limit)
    show([_priced(dict(row)) for row in found], COLUMNS, as_json=as_json, empty="No batches.")


@app.command("show")
def show_batch(batch_id: BatchId, *, limit: Limit = 50, as_json: Json = False) -> None:
    """Show one batch and what became of each of its items."""
    run(_show(batch_id, limit, as_json=as_json))


async def _show(batch_id: UUID, limit: int, *, as_json: bool) -> None:
    from penstock.store import batches

    async with database() as db:
        batch = _priced(dict(await batches.get(db, batch_id)))
        items = [_priced(dict(row)) for row in await batches.items(db, batch_id, limit)]
    if as_json:
        print_json({**batch, "items": items})
        return
    print_facts(batch)
    typer.echo()
    show(items, ITEM_COLUMNS, as_json=False, empty="Its items have left with their jobs.")
    if len(items) < batch["item_count"]:
        typer.echo(f"{len(items)} of {batch['item_count']} items; --limit shows more.")


@app.command()
def cancel(batch_id: BatchId, *, as_json: Json = False) -> None:
    """Call a batch off at its provider.

    The collector tells the provider, takes the results that are there, and
    lets the other jobs try again within their budget. Pause the type first if
    they should not go into the next batch.
    """
    run(_cancel(batch_id, as_json=as_json))


async def _cancel(batch_id: UUID, *, as_json: bool) -> None:
    from penstock.contract.errors import StepRefused
    from penstock.store import batches

    async with database() as db:
        state = await batches.ask_cancel(db, batch_id)
    if state != "submitted":
        raise StepRefused(f"batch {batch_id} is {state}; only one that is at its provider can be called off")
    if as_json:
        print_json({"batch_id": batch_id, "cancel_asked": True})
    else:
        typer.echo(f"Batch {batch_id} will be called off by the next run of its collector.")


def _priced(row: dict[str, Any]) -> dict[str, Any]:
    """With the cost as an amount, for people; programs have the millionths too."""
    return {**row, "cost": f"{row['cost_micros'] / MICROS:.4f}"}
