"""The worker: wakes when it is needed, drains in bounded runs, and stops without losing anything.

What wakes it: a poke, the poll, a job that falls due, a lease that expires, a
gate that opens. It never sleeps past the earliest of these (C-29) and never
polls faster than that.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from penstock.contract.claims import Caps, Trigger
from penstock.contract.errors import SettingsInvalid
from penstock.contract.policies import CONTROL_CHANNEL, Dispatch
from penstock.engine import control
from penstock.engine.alerts import Announcer
from penstock.engine.crew import Crew
from penstock.engine.fetcher import Group, group_types
from penstock.engine.listener import Listener
from penstock.engine.memory import rss_bytes
from penstock.engine.paced import Paced
from penstock.store import claims as claim_store
from penstock.store import connect, silence
from penstock.store.kept import Kept
from penstock.telemetry import events, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.alerts import Sink
    from penstock.engine.batches.asking import Adapters
    from penstock.engine.registry import JobType
    from penstock.engine.runs import Run
    from penstock.settings import Settings

SOONEST: Final = 0.001
PLAN_SOON: Final = 0.002  # seconds after a look that found nothing: something may fall due at any moment
PLAN_LATER: Final = (
    0.05  # … after one that found jobs, which start and end first, and so do those that follow closely …
)
PLAN_LATEST: Final = 0.25  # … but not for ever
AWAY_PAUSE: Final = 1.0
SUSPECTS_SOON: Final = 1.1  # seconds after which a busy worker looks at those that it has just made
ORPHAN_AGE: Final = timedelta(minutes=10)


class Worker(Crew):
    """Serves *types* until it is told to stop."""

    def __init__(
        self,
        dsn: str,
        types: Sequence[JobType],
        settings: Settings,
        *,
        name: str | None = None,
        concurrency: int | None = None,
        insecure: bool = False,
        pool_size: int | None = None,
        adapters: Callable[[], Adapters] | None = None,
        sinks: Sequence[Sink] = (),
    ) -> None:
        served = [t for t in types if t.policy.dispatch is Dispatch.NOTIFY]
        if not served:
            raise SettingsInvalid(
                "this worker has no types to serve; scheduled types run by `penstock run` or the scheduler"
            )
        for job_type in served:
            job_type.require_handlers()
        super().__init__(
            dsn,
            served,
            settings,
            name=name,
            concurrency=concurrency,
            insecure=insecure,
            pool_size=pool_size,
            adapters=adapters,
        )
        self._sinks = sinks
        self._wake = asyncio.Event()
        self._trigger = Trigger.POLL
        self._poked = False
        self._gates_moved = False
        self._maintain = True
        self._orphans_possible = False  # a claim's reply may have been lost with its connection
        self._timer: asyncio.TimerHandle | None = None
        self._resting: asyncio.TimerHandle | None = None  # before the next plan is made
        self._soon = False
        self._unplanned_since = 0.0
        self._planning: asyncio.Task[None] | None = None
        self._planned = True
        self._gates = Paced(self._look_at_gates, control.PAUSE)
        self._alerts = Paced(self._look_at_alerts, control.PAUSE)
        self._stopping = False
        self._stopped = asyncio.Event()
        self.ready = asyncio.Event()  # set when LISTEN is active and the startup drain has been claimed
        self.groups: list[Group] = group_types(served)
        self.recycle = False  # the process should end after draining: too much memory, or a thread that hangs

    async def run(self) -> None:
        """Work until `stop` is called; then drain and return."""
        await self._start()
        try:
            await self._loop()
        finally:
            await self._shut_down()
        if self.failure is not None:
            raise self.failure

    def stop(self, reason: str = "asked") -> None:
        """Take no more work; `run` returns when what runs has ended or the grace is over."""
        if not self._stopping:
            self._stopping = True
            if hasattr(self, "fetcher"):
                self.fetcher.stop()
                events.worker_stopping(self.worker_id, len(self.place.held), reason)
            self._wake.set()

    def part_ended(self, part: str, error: BaseException) -> None:
        """Stop, and let `run` raise *error*."""
        super().part_ended(part, error)
        self.stop(f"{part} ended")

    async def drain(self, trigger: Trigger = Trigger.ADMIN, cap: int | None = None) -> int:
        """Promote, claim and run what is due, and wait for it; returns how many jobs were taken (D-41)."""
        total = 0
        for group in self.groups:
            await self.fetcher.promote(group.types)
            caps = group.drain if cap is None else type(group.drain)(cap, group.drain.runtime)
            total += (await self.fetcher.drain(group, trigger, caps)).claimed
        await self.settle()
        while cap is None and (count := await self.run_suspect(self.groups, trigger)):
            total += count
        return total

    # ------------------------------------------------------------------ start

    async def _start(self) -> None:
        await self._open()
        self._kept = Kept(self.place.pool, answer_within=silence.ANSWER_WITHIN)
        self.fetcher.source = self._kept
        self.fetcher.gives_way = lambda: self._maintain
        self.announcer = Announcer(self.place.pool, self._sinks)
        self.listener = Listener(
            self._settings.listen_dsn or self._dsn,
            [CONTROL_CHANNEL, *(t.policy.channel for t in self._types.values())],
            poked=self._on_poke,
            restored=self._on_restored,
        )
        await self.listener.start()  # LISTEN first, then scan: nothing falls between (C-29)
        events.worker_started(self.worker_id, sorted(self._types), self.concurrency)
        self._trigger = Trigger.STARTUP
        self._wake.set()

    # ------------------------------------------------------------------- loop

    async def _loop(self) -> None:
        while True:
            await self._wake.wait()
            if self._stopping:
                return
            trigger = self._take_trigger()
            try:
                await self._round(trigger)
            except connect.AWAY as error:
                self._orphans_possible = True
                self._wait_out("drain", error)

    async def _round(self, trigger: Trigger) -> None:
        if self._gates_moved:
            self._gates_moved = False
            await self.fetcher.look_at_gates()
        if self._maintain:
            await self._look_after()
        if trigger is not Trigger.STARTUP:
            await self._look_at_suspects(trigger)  # first: a drain waits for a free slot
        runs = [await self._drain(group, trigger) for group in self.groups]
        filled = [group for group, run in zip(self.groups, runs, strict=True) if _filled(run)]
        if trigger is Trigger.STARTUP:
            self.ready.set()
            await self._look_at_suspects(trigger)
        while filled and not self._stopping:
            filled = [group for group in filled if _filled(await self._drain(group, Trigger.FOLLOW_UP))]
            if self._poked or self._wake.is_set() or self.suspects.due:
                break
        if self._over_budget():
            self.stop("recycle")
        elif filled or self.suspects.due:
            self._wake_now(Trigger.FOLLOW_UP)
        elif not self._wake.is_set():
            self._plan_sleep(soon=not any(run.claimed for run in runs))

    async def _drain(self, group: Group, trigger: Trigger) -> Run:
        caps = group.startup if trigger is Trigger.STARTUP else group.drain
        bounds = None
        if self.suspects.found:  # one handful between two of them: neither they nor the others wait for long
            bounds = Caps(min(caps.jobs, self.concurrency), caps.runtime)
        return await self.fetcher.drain(group, trigger, caps, bounds)

    async def _look_at_suspects(self, trigger: Trigger) -> None:
        if self.suspects.due and not self._stopping:
            await self.run_suspect(self.groups, trigger)

    async def _look_after(self) -> None:
        """What a poke does not need: expired leases, jobs that fell due, gates."""
        self._maintain = False
        if self._orphans_possible:
            await self._release_orphans()
        metrics.polled()
        self.suspects.due = True
        if await self.fetcher.reap():
            self._sleep(SUSPECTS_SOON)
        for group in self.groups:
            await self.fetcher.promote(group.types)
        await self.reopen_types()
        await self.fetcher.look_at_gates()
        self.announcer.look_now_and_then()

    async def _release_orphans(self) -> None:
        held = list(self.place.held)
        await claim_store.release_orphans(self.place.pool, self.worker_id, held, younger=ORPHAN_AGE)
        self._orphans_possible = False

    def _plan_sleep(self, *, soon: bool) -> None:
        """Ask the database how long to sleep, beside the loop: a poke that comes meanwhile is not held up.

        Until the answer is there the last plan stands, so nothing that was
        known before is missed.
        """
        self._planned = False
        if self._planning is not None and not self._planning.done():
            return  # it will ask once more
        loop = asyncio.get_running_loop()
        if self._resting is None:
            self._unplanned_since = loop.time()
        elif self._soon:
            return
        else:
            self._resting.cancel()
        self._soon = soon
        longest = self._unplanned_since + PLAN_LATEST - loop.time()
        self._resting = loop.call_later(PLAN_SOON if soon else min(PLAN_LATER, longest), self._begin_plan)

    def _begin_plan(self) -> None:
        self._resting = None
        self._planning = self.parts.start(self._plan(), "plan")

    async def _plan(self) -> None:
        try:
            while not self._planned:
                self._planned = True
                seconds = await self._until_needed()
        except connect.AWAY as error:
            self._wait_out("plan", error)
        else:
            if not self._maintain:  # else everything is looked at in a moment, which this plan must not put off
                self._sleep(seconds)

    def _wait_out(self, what: str, error: Exception) -> None:
        """Look at everything in a moment; and the listener may have lost the same server, without a word."""
        events.database_away(what, type(error).__name__, AWAY_PAUSE)
        self._maintain = True
        self._sleep(AWAY_PAUSE)
        self.listener.doubt()

    async def _until_needed(self) -> float:
        wake = await claim_store.next_wake(self.place.pool, list(self._types))
        self.suspects.due = self.suspects.due or wake.suspect is not None
        soonest = wake.seconds()
        poll = float(self._settings.poll_seconds)
        return poll if soonest is None else min(poll, max(SOONEST, soonest))

    def _sleep(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._maintain = True
        self.slots.nudge()
        self._sleep(self._settings.poll_seconds)  # a load that never lets it plan does not keep it from polling
        self._wake_now(Trigger.POLL)

    def _wake_now(self, trigger: Trigger) -> None:
        if not self._wake.is_set():
            self._trigger = trigger
        self._wake.set()

    def _take_trigger(self) -> Trigger:
        self._wake.clear()
        self._poked = False
        return self._trigger

    def _over_budget(self) -> bool:
        limit = self._settings.rss_limit_mb
        too_large = limit is not None and (rss_bytes() or 0) > limit * 1024 * 1024
        if self.executor.abandoned or too_large:
            self.recycle = True
        return self.recycle

    # ----------------------------------------------------------------- signals

    def _on_poke(self, channel: str, payload: str) -> None:
        if channel == CONTROL_CHANNEL:
            self._on_control(payload)
            return
        job_type = _poked_type(payload)
        if job_type is None or job_type in self._types:
            self._poked = True
            self._wake_now(Trigger.NOTIFY)

    def _on_control(self, payload: str) -> None:
        message = self._on_cancel(payload)
        if message.gates:
            self._gates.ask()
        if message.alerts:
            self._alerts.ask()

    def _look_at_gates(self) -> None:
        self._gates_moved = True
        self._wake_now(Trigger.NOTIFY)

    def _look_at_alerts(self) -> None:
        self.announcer.poke()

    def _on_freed(self) -> None:
        """A job of a type with limits has ended: the next may start. Or one went back, maybe due before we wake."""
        super()._on_freed()
        if self.place.gate_freed or self.recorder.requeued:
            self.place.gate_freed = False
            self._wake_now(Trigger.FOLLOW_UP)

    def _on_restored(self) -> None:
        """Pokes were lost while nobody listened: look at everything."""
        self._on_timer()

    # -------------------------------------------------------------------- stop

    async def _shut_down(self) -> None:
        self._stopping = True
        for timer in (self._resting, self._timer):
            if timer is not None:
                timer.cancel()
        self._gates.close()
        self._alerts.close()
        await self.parts.end(self._planning)
        if not hasattr(self, "heartbeat"):
            await self._close_pool()
            return
        await self._finish_work(self._settings.grace_seconds)
        if hasattr(self, "_kept"):
            await self._kept.give_back()
        if hasattr(self, "listener"):
            await self.listener.stop()
            await self.announcer.close()
        await self._leave()
        events.worker_stopped(self.worker_id)
        self._stopped.set()


def _filled(run: Run) -> bool:
    """Whether a run stopped at its cap, so that another one follows at once."""
    return run.claimed >= run.caps.jobs


@lru_cache(maxsize=64)
def _poked_type(payload: str) -> str | None:
    """The type that a poke names; None, for all, when it names none that can be read (C-28)."""
    named = control.loads(payload).get("job_type")
    return named if isinstance(named, str) else None
