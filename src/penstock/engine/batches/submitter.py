"""The submitter: a bounded run that takes its jobs to their providers in batches.

First it settles what earlier runs have left in doubt. Then it claims and runs
like any bounded run; jobs whose stage asks in a batch are parked. At last the
parked ones go out, group by group. What does not fit into this run goes back
to the queue for a short while, with no attempt used (C-26, Q-60).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.verdicts import Requeued
from penstock.engine.batches.packing import Misfit, Part, Shelf, pack, shelved
from penstock.engine.batches.parking import ParkedClaim, ParkingLot
from penstock.engine.batches.recovery import recover
from penstock.engine.batches.sending import SHUTDOWN, Sender, Sent
from penstock.engine.bounded import BoundedRun
from penstock.engine.executor import LOST
from penstock.engine.failing import judged
from penstock.engine.patience import persist
from penstock.engine.running import Stop
from penstock.store import batch_items

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from penstock.engine.batches.asking import Adapters
    from penstock.providers.port import BatchAdapter


class Submitter(BoundedRun):
    """One run of the jobs of types with a lane."""

    _sender: Sender
    _stopping = False

    async def open(self) -> None:
        """Connect, and make room for what will be parked."""
        await super().open()
        self.place.parking = self._lot = ParkingLot()
        self.suspects.unload = self._clear_suspects
        self._sender = Sender(self.place, self.recorder.tally, self._run, self._overflow)
        self._sent: Counter[str] = Counter()  # batches, by type
        self._undecided: dict[UUID, ParkedClaim] = {}  # out of the lot, and neither sent nor given back
        self._held_back: dict[str, tuple[timedelta, str | None]] = {}  # types whose breaker this run has opened

    async def work(self) -> None:
        """Recover, claim, submit; claim again only when a probe has closed the breaker of a type."""
        await self._patiently(self._recover)
        while True:
            await super().work()
            shaky = set(self.recorder.shaky)
            await self._submit_parked()
            await self.settle()
            await self.recorder.flush()  # the breakers hear of what was taken
            if not shaky - self.recorder.shaky or self._stopping:
                return
            await self._patiently(self.fetcher.look_at_gates)

    def stop(self, grace: float) -> None:
        """Begin no other batch; the one on its way has *grace* seconds, what is parked goes back now."""
        super().stop(grace)
        self._stopping = True
        asyncio.get_running_loop().call_later(grace, self._sender.halt)

    async def close(self) -> None:
        """Give back what is still parked, record what is left, disconnect."""
        if hasattr(self, "_lot"):
            self._give_back([*self._lot.leave(), *self._undecided.values()], timedelta(0), SHUTDOWN)
        await super().close()

    async def _clear_suspects(self) -> None:
        """A suspect whose request is ready is none any more; it goes back, to be sent together with the others."""
        self._give_back(self._lot.leave(), timedelta(0), None)

    @property
    def _providers(self) -> Adapters:
        assert self.place.adapters is not None  # noqa: S101 - the dispatcher gives every run its way to them
        return self.place.adapters()

    async def _recover(self) -> None:
        for job_type in self._types.values():
            if job_type.lanes:
                await recover(
                    self.place.pool, self._providers, job_type.name, recovery=f"recovery-{self._run.run_id.hex}"
                )

    async def _submit_parked(self) -> None:
        parked = self._lot.leave()
        self._undecided = {member.running.claim.job_id: member for member in parked}
        ids = list(self._undecided)
        refusals = await persist("refusals", lambda: batch_items.refusals(self.place.pool, ids)) if ids else {}
        for shelf, members in shelved(parked, refusals).items():
            await self._submit_shelf(shelf, deque(members))

    async def _submit_shelf(self, shelf: Shelf, waiting: deque[ParkedClaim]) -> None:
        while waiting := self._still_here(waiting):
            back = self._given_up(shelf)
            if back is not None:
                self._give_back(waiting, *back)
                return
            adapter = await self._adapter(shelf, waiting)
            if adapter is None:
                return
            part, misfits = pack(adapter, waiting)
            self._refuse(misfits)
            if part.lines:
                await self._submit(shelf, part, adapter, waiting)

    async def _submit(self, shelf: Shelf, part: Part, adapter: BatchAdapter, waiting: deque[ParkedClaim]) -> None:
        self._decided(part.members)  # from its intent on a part is its own, whatever happens to this run
        sent = await self._sender.send(shelf, part, adapter)
        if sent is Sent.SHRUNK:
            self._undecided |= {member.running.claim.job_id: member for member in part.members}
            waiting.extendleft(reversed(part.members))  # those that are still ours, under other numbers
            return
        self._sent[shelf.job_type] += 1
        self._run.count_calls(shelf.key.group.provider, shelf.key.group.model, len(part.lines))
        if sent is Sent.REFUSED:
            self._held_back[shelf.job_type] = self._sender.back_off, self._sender.code

    def _given_up(self, shelf: Shelf) -> tuple[timedelta, str | None] | None:
        """How long what has not been sent yet must wait, and why; None while another batch may go out."""
        if self._stopping:
            return timedelta(0), SHUTDOWN
        if shelf.job_type in self._held_back:
            return self._held_back[shelf.job_type]
        most = self._types[shelf.job_type].lane_schedule.batches_per_run
        if self._run.time_left <= 0 or self._sent[shelf.job_type] >= most:
            return self._overflow, None
        return None

    async def _adapter(self, shelf: Shelf, waiting: deque[ParkedClaim]) -> BatchAdapter | None:
        """The adapter of a shelf.

        A kind that nobody has, or one without batches, is the fault of the jobs'
        own routes. A missing key is nobody's: the jobs wait until there is one.
        """
        route, providers = waiting[0].request.route, self._providers
        try:
            adapter = providers.get(route)
        except Failed as error:
            if providers.knows(route.adapter):
                back_off = await self._sender.refuse(self._types[shelf.job_type], error)
                self._held_back[shelf.job_type] = back_off, self._sender.code
                self._give_back(waiting, *self._held_back[shelf.job_type])
                return None
            refused = error
        else:
            if adapter.limits is not None:
                return cast("BatchAdapter", adapter)
            why = f"adapter {route.adapter!r} takes no batches; give the route another one, or execution 'async'"
            refused = Failed(FailureClass.CONFIG_INVALID, why)
        self._refuse([Misfit(member, refused) for member in waiting])
        return None

    def _still_here(self, waiting: deque[ParkedClaim]) -> deque[ParkedClaim]:
        """Those that nobody has canceled or taken away since they were parked."""
        here: deque[ParkedClaim] = deque()
        for member in waiting:
            if member.running.stop is None:
                here.append(member)
            elif member.running.stop is Stop.SHUTDOWN:
                self._give_back([member], timedelta(0), SHUTDOWN)
            else:
                self._decided([member])
                self.recorder.put(member.running, LOST)
        return here

    def _refuse(self, misfits: Iterable[Misfit]) -> None:
        for misfit in misfits:
            running = misfit.member.running
            self._decided([misfit.member])
            self.recorder.put(running, *judged(running, misfit.error, self.place.random))

    def _give_back(self, members: Iterable[ParkedClaim], delay: timedelta, code: str | None) -> None:
        for member in list(members):
            self._decided([member])
            self.recorder.put(member.running, Requeued(delay, code))

    def _decided(self, members: Iterable[ParkedClaim]) -> None:
        for member in members:
            self._undecided.pop(member.running.claim.job_id, None)
