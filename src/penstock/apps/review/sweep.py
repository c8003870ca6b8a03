"""The sweep over deliveries: what is marked as sent is confirmed by its provider, what is in doubt is settled (C-43).

A mark that no provider confirms breaks the order of sending and marking. It is
believed only of an authenticated not-found: then somebody is alerted, the
markers are cleared, and a job sends it again. Channels without a lookup are
left alone; a person settles what is in doubt there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.apps.review import deliveries, settling
from penstock.apps.review.models import ChannelKind
from penstock.channels.port import Settles
from penstock.contract.classify import classify
from penstock.contract.errors import Failed, StepRefused
from penstock.engine.cadences import Cadence
from penstock.engine.functions import Function

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from penstock.apps.review.deliveries import Unsettled
    from penstock.channels.port import Channel
    from penstock.channels.registry import Channels
    from penstock.engine.functions import RunHandle
    from penstock.store.claims import Db
    from penstock.store.connect import Pool

FUNCTION: Final = "review_reconcile"
GRACE: Final = timedelta(seconds=60)  # before a provider is asked for what it has just taken, and asked again
MOST: Final = 1_000  # jobs for cleared deliveries, in one sweep


@dataclass(slots=True)
class Swept:
    """What a sweep came to."""

    confirmed: int = 0  # its provider knows it
    cleared: int = 0  # marked as sent, and its provider knows nothing: to be sent again
    failed: int = 0  # in doubt, and its provider knows nothing
    unanswered: int = 0  # nobody could tell this time
    redelivered: int = 0  # jobs that were enqueued

    @property
    def asked(self) -> int:
        """Deliveries that were looked at."""
        return self.confirmed + self.cleared + self.failed + self.unanswered


async def reconcile(
    db: Db,
    channels: Channels,
    *,
    limit: int,
    only: Sequence[UUID] | None = None,
    who: str = FUNCTION,
    error: Callable[[str], None] = lambda _code: None,
    in_time: Callable[[], bool] = lambda: True,
) -> Swept:
    """Ask providers about up to *limit* deliveries, or *only* these; *error* hears of every class that was met.

    A channel that does not answer is left alone for the rest of the sweep.
    """
    known = asking(channels)
    swept, silent = Swept(), set[str]()
    for row in await _unsettled(db, known, limit, only):
        if row.channel in silent or not in_time():
            continue
        try:
            await _settle(db, known[row.channel], row, who, swept)
        except StepRefused:  # a job has it in hand at this very moment
            swept.unanswered += 1
        except _Unanswered as unanswered:
            swept.unanswered += 1
            silent.add(row.channel)
            error(unanswered.code)
    swept.redelivered = await deliveries.redeliver(db, MOST)
    return swept


async def _unsettled(
    db: Db, known: Mapping[str, Channel], limit: int, only: Sequence[UUID] | None = None
) -> list[Unsettled]:
    by_token = [kind for kind, one in known.items() if Settles.LOOKUP_BY_TOKEN in one.settles]
    by_id = [kind for kind, one in known.items() if Settles.LOOKUP_BY_ID in one.settles]
    return await deliveries.unsettled(db, by_token=by_token, by_id=by_id, grace=GRACE, limit=limit, only=only)


class _Unanswered(Exception):
    def __init__(self, code: str) -> None:
        self.code = code


async def _settle(db: Db, channel: Channel, row: Unsettled, who: str, swept: Swept) -> None:
    async def note(outcome: str) -> None:
        await deliveries.note_lookup(db, row.delivery_id, None, outcome)

    try:
        receipt = await settling.look_up(channel, row, note)
    except Exception as error:
        raise _Unanswered(str(classify(error).error_class)) from error
    if receipt is not None:
        found = receipt.notification_id
        await deliveries.settle(db, row.delivery_id, happened=True, who=who, notification_id=found, proven=True)
        swept.confirmed += 1
        return
    if row.status == "sent":
        await deliveries.suspect(db, row.delivery_id)
    await deliveries.settle(db, row.delivery_id, happened=False, who=who, proven=True)
    swept.cleared += row.notified_at is not None
    swept.failed += row.notified_at is None


def asking(channels: Channels) -> dict[str, Channel]:
    """The channels that are on and can be asked about a message."""
    found: dict[str, Channel] = {}
    for kind in ChannelKind:
        try:
            channel = channels.get(kind)
        except Failed:
            continue
        if channel.settles & {Settles.LOOKUP_BY_TOKEN, Settles.LOOKUP_BY_ID}:
            found[kind] = channel
    return found


def reconcile_function(channels: Channels, every: float) -> Function:
    """The sweep as a function of the application, *every* so many seconds."""

    async def call(handle: RunHandle) -> None:
        swept = await reconcile(
            handle.pool,
            channels,
            limit=max(1, handle.room),
            error=handle.count_error,
            in_time=lambda: handle.time_left > 0,
        )
        handle.count(claimed=swept.asked, succeeded=swept.confirmed, failed=swept.failed, requeued=swept.cleared)

    async def pending(pool: Pool) -> int:
        return len(await _unsettled(pool, asking(channels), 1)) or await deliveries.cleared(pool)

    return Function(FUNCTION, call=call, cadence=Cadence(every=timedelta(seconds=every)), pending=pending)
