"""`penstock deliveries`: who was told, with the proof, and what a person does about a doubt.

Exit codes: 0 done, 1 refused by a rule or a provider that does not answer, 2
wrong usage, 3 no such delivery, 4 the database is away, 6 refused: it is being
sent at this moment, or this login may not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from penstock.cli.common import Json, Limit, Who, database, print_facts, print_json, run, show
from penstock.cli.each import each
from penstock.cli.exits import FAILED, USAGE, fail
from penstock.contract.errors import StepRefused

if TYPE_CHECKING:
    from penstock.apps.review.sweep import Swept
    from penstock.store.claims import Db

app = typer.Typer(name="deliveries", help="Who was told about a review, with the proof.", no_args_is_help=True)

COLUMNS: Final = (
    "delivery_id", "changelist_id", "review_version", "channel", "required", "promise", "status", "send_count",
    "notification_id", "notified_at", "provider_confirmed_at", "last_error_code",
)  # fmt: skip
ATTEMPT_COLUMNS: Final = ("at", "action", "attempt", "outcome", "job_id")
MOST: Final = 10_000

DeliveryId = Annotated[UUID, typer.Argument(metavar="DELIVERY_ID", show_default=False)]
DeliveryIds = Annotated[list[UUID], typer.Argument(metavar="DELIVERY_ID", show_default=False)]


class DeliveryStatus(StrEnum):
    """Where a delivery stands (C-43)."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"
    RECONCILING = "reconciling"


@app.command("list")
def list_deliveries(
    *,
    status: Annotated[DeliveryStatus | None, typer.Option(help="Only this status.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only this channel.")] = None,
    review_id: Annotated[UUID | None, typer.Option("--review", help="Only deliveries of this review.")] = None,
    changelist: Annotated[str | None, typer.Option(help="Only deliveries about this changelist.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List deliveries with their proof, the newest first; addresses are shown by `show` alone."""
    run(_list(status and str(status), channel, review_id, changelist, limit, as_json=as_json))


async def _list(
    status: str | None,
    channel: str | None,
    review_id: UUID | None,
    changelist: str | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    from penstock.apps.review import deliveries

    async with database() as db:
        found = await deliveries.listed(
            db, status=status, channel=channel, review_id=review_id, changelist_id=changelist, limit=limit
        )
    show(found, COLUMNS, as_json=as_json, empty="No deliveries.")


@app.command("show")
def show_delivery(delivery_id: DeliveryId, *, as_json: Json = False) -> None:
    """Show one delivery, whom it is for, and every call to its provider."""
    run(_show(delivery_id, as_json=as_json))


async def _show(delivery_id: UUID, *, as_json: bool) -> None:
    from penstock.apps.review import deliveries

    async with database() as db:
        found = await deliveries.shown(db, delivery_id)
    if as_json:
        print_json(found)
        return
    calls: list[dict[str, Any]] = found.pop("attempts")
    print_facts(found)
    typer.echo()
    show(calls, ATTEMPT_COLUMNS, as_json=False, empty="Its provider was never called.")


@app.command()
def reconcile(
    delivery_ids: Annotated[
        list[UUID] | None, typer.Argument(metavar="[DELIVERY_ID]...", help="None: all that wait.", show_default=False)
    ] = None,
    *,
    who: Who,
    as_json: Json = False,
) -> None:
    """Ask providers about deliveries that none of them has confirmed, or that are in doubt.

    Needs the settings of the channels, as a worker has them. What is marked as
    sent and unknown to its provider is sent again, and somebody is alerted.
    """
    swept = run(_reconcile(delivery_ids, who))
    facts = {name: getattr(swept, name) for name in swept.__slots__}
    print_json(facts) if as_json else print_facts(facts)
    if swept.unanswered:
        fail(f"{swept.unanswered} of {swept.asked} could not be settled now; see `penstock deliveries show`.", FAILED)


async def _reconcile(delivery_ids: list[UUID] | None, who: str) -> Swept:
    from penstock.apps.review import deliveries, sweep
    from penstock.channels.registry import Channels
    from penstock.settings import load_settings

    settings = load_settings()
    channels = Channels(settings)
    try:
        async with database(settings=settings) as db:
            for delivery_id in delivery_ids or ():
                await deliveries.shown(db, delivery_id)  # an unknown one would look like one with nothing to do
            return await sweep.reconcile(db, channels, limit=MOST, only=delivery_ids or None, who=who)
    finally:
        await channels.close()


@app.command()
def resolve(
    delivery_ids: DeliveryIds,
    *,
    happened: Annotated[bool, typer.Option("--happened/--absent", help="What you saw outside.", show_default=False)],
    notification_id: Annotated[str | None, typer.Option("--id", help="The provider's id of the message.")] = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Say of deliveries in doubt whether they were sent; then replay their job. Only operators may."""
    if notification_id is not None and (not happened or len(delivery_ids) > 1):
        fail("An id belongs to one message that was sent: leave --id out.", USAGE)

    async def one(db: Db, delivery_id: UUID) -> str:
        from penstock.apps.review import deliveries

        status = await deliveries.settle(db, delivery_id, happened=happened, who=who, notification_id=notification_id)
        if not happened and status == DeliveryStatus.SENT:
            raise StepRefused(f"delivery {delivery_id} is sent; only its provider can say that it was not (reconcile)")
        return status

    run(each("delivery_id", delivery_ids, one, "status", as_json=as_json))


@app.command()
def waive(delivery_ids: DeliveryIds, *, who: Who, as_json: Json = False) -> None:
    """Excuse recipients who were not told: their job may succeed without them. Only operators may."""

    async def one(db: Db, delivery_id: UUID) -> str:
        from penstock.apps.review import deliveries

        status = await deliveries.waive(db, delivery_id, who=who)
        if status == DeliveryStatus.SENT:
            raise StepRefused(f"delivery {delivery_id} is sent; there is nobody to excuse")
        return status

    run(each("delivery_id", delivery_ids, one, "status", as_json=as_json))
