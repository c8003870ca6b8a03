"""The collector: asks after a type's batches and brings their items home, one by one (A-41).

A run first settles submissions in doubt, then takes due batches one at a time
under a lease of its own: polls, and where a batch is over reads its results
whole, matches them by custom id, and settles every open item. It is bounded
by its cap in items and by its time; what is left asks for a follow-up (C-25).
Killed anywhere, it leaves items that have their end and items that are open;
the next run reads the same results again and goes on with the open ones.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from penstock.contract.calls import Route
from penstock.contract.classify import Failure
from penstock.contract.crash import CrashPoint, passing
from penstock.contract.prices import Prices, load_prices
from penstock.engine.batches import plans, polling
from penstock.engine.batches.files import delete_files
from penstock.engine.batches.items import EXPIRED, Line, Sheet, gather
from penstock.engine.batches.recovery import recover
from penstock.engine.batches.settling import Settler
from penstock.engine.batches.tallying import Tally
from penstock.engine.patience import persist
from penstock.store import batch_items as store
from penstock.store import connect, spend
from penstock.store.batch_items import Polled
from penstock.telemetry import events as breakers
from penstock.telemetry import item_events as events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from uuid import UUID

    from penstock.contract.prices import Price
    from penstock.engine.app import Penstock
    from penstock.engine.functions import RunHandle
    from penstock.engine.registry import JobType
    from penstock.providers.port import BatchAdapter, BatchState
    from penstock.store.batch_items import Leased, Name

SET: Final = 200  # items that are judged and written together
LEASE: Final = timedelta(minutes=10)
_NOW: Final = timedelta(0)


def make_collector(app: Penstock, job_type: JobType) -> Callable[[RunHandle], Awaitable[None]]:
    """The code of the collector of *job_type*, for its function."""

    async def collect(handle: RunHandle) -> None:
        await Collector(app, job_type, handle).run()

    return collect


class Collector:
    """One run."""

    def __init__(self, app: Penstock, job_type: JobType, handle: RunHandle) -> None:
        self._app = app
        self._job_type = job_type
        self._handle = handle
        self._pool = handle.pool
        self._who = handle.run_id.hex
        self._prices: Prices = load_prices(handle.settings.prices)
        self._tally = Tally(handle)
        self._overflow = timedelta(seconds=handle.settings.active_profile().overflow_backoff_seconds)

    async def run(self) -> None:
        """Collect what is due, within the bounds of the run."""
        await recover(self._pool, self._app.adapters, self._job_type.name, recovery=f"recovery-{self._who}")
        for name in await spend.reopen(self._pool, [self._job_type.policy]):
            events.spend_cap_lifted(name)
        seen: list[UUID] = []
        while self._handle.room > 0:
            batch = await persist("batch", lambda: store.lease(self._pool, self._job_type.name, self._who, LEASE, seen))
            if batch is None:
                break
            seen.append(batch.batch_id)
            async with self._held(batch):
                await self._collect(batch)
        else:
            self._handle.follow_up()
        await delete_files(self._pool, self._app.adapters, self._job_type.name, self._handle.settings)

    # ---------------------------------------------------------------- one batch

    async def _collect(self, batch: Leased) -> None:
        try:
            route = Route(batch.provider, batch.model, batch.adapter, batch.base_url or None)
            adapter = cast("BatchAdapter", self._app.adapters.get(route))
        except Exception as error:
            await self._unanswered(batch, "poll", await polling.asked(_raising(error)))
            return
        state = await polling.poll(adapter, batch)
        passing(CrashPoint.AFTER_BATCH_POLL)
        if isinstance(state, Failure):
            await self._unanswered(batch, "poll", state, adapter.limits.grace)
        elif polling.over(state):
            await self._bring_home(batch, adapter, state)
        else:
            await self._wait(batch, adapter, state)

    async def _wait(self, batch: Leased, adapter: BatchAdapter, state: BatchState) -> None:
        """It is still on its way: look again later; cancel it when an operator or its deadline says so (C-05)."""
        if polling.late(batch):
            events.batch_deadline_passed(batch)
            await self._alert(batch, "batch_deadline_passed", open_items=batch.item_count)
        if polling.given_up(batch):
            await self._give_up(batch, state.provider_status)
            return
        asked = batch.cancel_asked_at is not None or polling.late(batch)
        if asked:
            await polling.asked(adapter.cancel(batch.provider_batch_id))
        events.batch_polled(batch, state.provider_status)
        after = polling.CANCELING if asked else polling.interval(batch)
        poll = Polled(after, state.provider_status, state.input_file_id, cancel_sent=asked)
        await persist("batch", lambda: store.polled(self._pool, batch.batch_id, self._who, poll))

    async def _unanswered(
        self, batch: Leased, what: str, failure: object, grace: timedelta = timedelta(minutes=5)
    ) -> None:
        """Nobody can tell how it stands. Only a batch that stays missing past its deadline is given up."""
        assert isinstance(failure, Failure)  # noqa: S101 - whoever calls has looked
        code = str(failure.error_class)
        self._handle.count_error(code)
        missing = polling.is_missing(failure)
        if missing and polling.missing_too_long(batch, grace):
            events.batch_missing(batch)
            await self._alert(batch, "batch_missing", code=code)
            if polling.late(batch):
                await self._alert(batch, "batch_deadline_passed", open_items=batch.item_count)
                await self._give_up(batch, "not_found")
                return
        elif not missing:
            events.batch_poll_failed(batch, what, code)
            if not failure.retryable or batch.poll_failures >= plans.PATIENCE:
                await self._alert(batch, "batch_poll_failed", code=code, what=what)
        after = polling.interval(batch, failed=True)
        poll = Polled(after, error_code=code, missing=missing)
        await persist("batch", lambda: store.polled(self._pool, batch.batch_id, self._who, poll))

    async def _give_up(self, batch: Leased, status: str) -> None:
        """No result of it will ever be waited for: what is open was not executed (C-37 b)."""
        names = await persist("items", lambda: store.names(self._pool, batch.batch_id))
        lines = {name.number: Line(failure=EXPIRED) for name in names.values() if name.open}
        await self._settle(batch, lines, status, "BATCH_EXPIRED")

    async def _bring_home(self, batch: Leased, adapter: BatchAdapter, state: BatchState) -> None:
        """It is over: read everything, then settle every item that is open."""
        files = state.input_file_id, state.output_file_id, state.error_file_id
        status = state.provider_status
        if not await persist("batch", lambda: store.seen(self._pool, batch.batch_id, self._who, status, files)):
            return  # another collector has it
        names = await persist("items", lambda: store.names(self._pool, batch.batch_id))
        waiting = sum(name.open for name in names.values())
        if waiting > self._handle.room and self._tally.states.total():
            await self._let_go(batch, _NOW, state)  # it fits into a run of its own
            self._handle.follow_up()
            return
        sheet = await self._download(batch, adapter, state, names) if waiting else plans.NOTHING
        if sheet is None:
            return
        passing(CrashPoint.AFTER_BATCH_DOWNLOAD)
        plan = plans.plan(batch, state, names, sheet, self._overflow)
        if plan.odd:
            events.batch_lines_odd(batch, unknown=sheet.unknown, doubled=sheet.doubled, missing=plan.missing)
        for kind, facts in plan.alerts:
            await self._alert(batch, kind, **facts)
        if plan.breaker is not None:
            await self._hold_type(batch, plan.breaker)
        await self._settle(batch, plan.lines, status, plan.code)

    async def _download(
        self, batch: Leased, adapter: BatchAdapter, state: BatchState, names: Mapping[str, Name]
    ) -> Sheet | None:
        """All results, or none: a download that breaks changes nothing and is made again (fault 27)."""
        if not polling.has_results(state):
            return plans.NOTHING
        self._handle.count_call(batch.provider, batch.model)
        sheet = await polling.asked(gather(adapter.results(state), names), polling.DOWNLOAD_SECONDS)
        if not isinstance(sheet, Failure):
            return sheet
        if polling.hopeless(batch, sheet):
            await self._give_up(batch, state.provider_status)
        else:
            await self._unanswered(batch, "download", sheet, adapter.limits.grace)
        return None

    async def _settle(self, batch: Leased, lines: dict[int, Line], status: str, code: str | None) -> None:
        """Settle *lines* in sets, as far as the bounds of this run go; close the batch when no item is open."""
        settler = Settler(
            self._pool, batch, self._job_type, await self._price(batch), random.random, self._handle.run_id, self._tally
        )
        numbers = list(lines)
        while numbers and self._handle.room > 0:
            size = min(SET, self._handle.room)
            some, numbers = numbers[:size], numbers[size:]
            await settler.settle({number: lines.pop(number) for number in some})
            await settler.move_breaker()
        if numbers:
            await self._let_go(batch, _NOW)
            self._handle.follow_up()
        elif await persist("batch", lambda: store.collected(self._pool, batch.batch_id, self._who, code)):
            events.batch_collected(batch, status, self._tally.states)
            passing(CrashPoint.AFTER_BATCH_COLLECTED)
        else:
            await self._let_go(batch, polling.interval(batch, failed=True))  # some ends could not be written

    # ------------------------------------------------------------------- helpers

    async def _let_go(self, batch: Leased, after: timedelta, state: BatchState | None = None) -> None:
        poll = Polled(after)
        if state is not None:
            files = state.input_file_id, state.output_file_id, state.error_file_id
            poll = Polled(after, state.provider_status, *files)
        await persist("batch", lambda: store.polled(self._pool, batch.batch_id, self._who, poll))

    async def _alert(self, batch: Leased, kind: str, **facts: object) -> None:
        """Tell somebody about this batch, once for each fact that nobody has seen."""
        about = {"batch_id": str(batch.batch_id)}
        more = {"job_type": batch.job_type, **facts}
        await persist("alert", lambda: spend.alert_once(self._pool, kind, about, more))

    async def _hold_type(self, batch: Leased, code: str) -> None:
        """The batch as a whole was refused, and the next one would be too: nobody's item failure (C-37 e)."""
        if await persist("breaker", lambda: store.open_breaker(self._pool, batch.job_type, code)):
            breakers.breaker_opened(batch.job_type, code)
            await self._alert(batch, "breaker_opened", code=code)

    async def _price(self, batch: Leased) -> Price | None:
        price = self._prices.of(batch.provider, batch.model)
        if price is None and (self._prices.models or self._job_type.policy.cap_micros is not None):
            await persist("alert", lambda: spend.note_unpriced(self._pool, batch.provider, batch.model))
        return price

    @asynccontextmanager
    async def _held(self, batch: Leased) -> AsyncIterator[None]:
        """Renew the lease of *batch* beside the work on it."""

        async def renew_for_ever() -> None:
            while True:
                await asyncio.sleep(LEASE.total_seconds() / 3)
                try:
                    await store.renew(self._pool, batch.batch_id, self._who, LEASE)
                except connect.AWAY:
                    continue  # the next one may come through; the fences hold in any case
                except Exception as error:
                    breakers.internal_error("batch lease", type(error).__name__)  # likewise

        renewal = asyncio.create_task(renew_for_ever(), name="penstock-batch-lease")
        try:
            yield
        finally:
            renewal.cancel()


async def _raising(error: Exception) -> None:
    raise error
