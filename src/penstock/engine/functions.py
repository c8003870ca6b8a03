"""Functions: named pieces of bounded work that a schedule or an operator starts.

A function either runs the waiting jobs of some types, within their caps, or
calls code of its own. One call of a function is one run (C-57). Every
scheduled type has one: declared by name, or else under the name of the type.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.claims import Caps
from penstock.contract.errors import SettingsInvalid, UnknownFunction
from penstock.contract.payloads import encode
from penstock.contract.policies import Dispatch, check_name
from penstock.engine.cadences import Cadence
from penstock.store.schedules import Declared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from uuid import UUID

    from penstock.contract.claims import Trigger
    from penstock.engine.batches.asking import Adapters
    from penstock.engine.bounded import TimedRun
    from penstock.engine.registry import JobType, Registry
    from penstock.settings import Settings
    from penstock.store.connect import Pool

    Pending = Callable[[Pool], Awaitable[int]]

TIMEOUT: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Function:
    """One function: jobs of *types*, or the code of *call*."""

    name: str
    types: tuple[str, ...] = ()
    call: Callable[..., Any] | None = None
    cadence: Cadence | None = None  # none: only by hand
    pending: Pending | None = None  # how much waits; zero skips the run. None: unknown, it always runs
    max_jobs: int | None = None  # none: the types' own, or the profile's
    max_runtime: timedelta | None = None  # the same
    timeout: timedelta = TIMEOUT  # for code of its own: it is cancelled then

    def __post_init__(self) -> None:
        check_name("function", self.name)
        if bool(self.types) == (self.call is not None):
            raise SettingsInvalid(f"function {self.name!r} needs either types whose jobs it runs, or code to call")
        if self.max_jobs is not None and self.max_jobs < 1:
            raise SettingsInvalid(f"max_jobs of function {self.name!r} must be at least 1, not {self.max_jobs}")
        for name in ("max_runtime", "timeout"):
            span = getattr(self, name)
            if span is not None and span <= timedelta(0):
                raise SettingsInvalid(f"{name} of function {self.name!r} must be above 0, not {span}")


class RunHandle:
    """What the code of a function gets to know and to do about its run."""

    def __init__(self, run: TimedRun, pool: Pool, settings: Settings) -> None:
        self._run = run
        self.pool = pool
        self.settings = settings

    @property
    def run_id(self) -> UUID:
        """The id of the run."""
        return self._run.run_id

    @property
    def trigger(self) -> Trigger:
        """A schedule or an admin."""
        return self._run.trigger

    @property
    def room(self) -> int:
        """How many more items this run may take: none once its cap or its time is reached."""
        return max(0, self._run.room())

    @property
    def time_left(self) -> float:
        """Seconds in which the run may still start something."""
        return self._run.time_left

    def count(self, *, claimed: int = 0, succeeded: int = 0, failed: int = 0, requeued: int = 0, lost: int = 0) -> None:
        """Add to the counts of the run (Q-78)."""
        self._run.claimed += claimed
        self._run.succeeded += succeeded
        self._run.failed += failed
        self._run.requeued += requeued
        self._run.lost += lost

    def follow_up(self) -> None:
        """Ask for another run right after this one: its bounds were reached and more is there (C-25)."""
        self._run.again = True

    def count_call(self, provider: str, model: str) -> None:
        """Count a provider call (Q-79)."""
        self._run.count_calls(provider, model)

    def count_error(self, code: str, *, rate_limited: bool = False) -> None:
        """Count an error by its class (Q-79)."""
        self._run.count_error(code)
        self._run.rate_limited += rate_limited


class Functions:
    """The functions and schedules of one application.

    *source* names the application in `penstock.schedules`: a schedule that is
    no longer declared is retired only by the application that declared it.
    """

    def __init__(self, types: Registry, settings: Callable[[], Settings]) -> None:
        self._types = types
        self._settings = settings
        self._declared: dict[str, Function] = {}
        self._enqueueing: dict[str, Declared] = {}
        self.source = "app"
        self.housekeeping: Sequence[Function] | None = None  # what comes with Penstock; () leaves it out
        self.adapters: Callable[[], Adapters] = _no_adapters  # the application's way to its providers
        self.collector: Callable[[JobType], Callable[[RunHandle], Awaitable[None]]] = _no_collector

    def add(self, function: Function) -> Function:
        """Declare *function*; a name is taken once."""
        if function.name in self._declared:
            raise SettingsInvalid(f"function {function.name!r} is declared twice; give the second another name")
        self._declared[function.name] = function
        return function

    def enqueue(self, schedule: str, job_type: str, payload: Any, cadence: Cadence) -> None:
        """Declare a schedule that enqueues one job of *job_type* per tick."""
        if schedule in self._enqueueing:
            raise SettingsInvalid(f"schedule {schedule!r} is declared twice; give the second another name")
        check_name("schedule", schedule)
        text = encode(payload if payload is not None else {})
        self._enqueueing[schedule] = Declared(
            schedule, None, job_type, text, cadence.cron, cadence.every, cadence.timezone
        )

    def get(self, name: str) -> Function:
        """The function called *name*."""
        for function in self:
            if function.name == name:
                return function
        raise UnknownFunction(name, sorted(function.name for function in self))

    def __iter__(self) -> Iterator[Function]:
        """The declared ones, those of scheduled types that none of them serves, and those that come with Penstock."""
        yield from self._declared.values()
        served = {name for function in self._declared.values() for name in function.types}
        cadence = Cadence(every=timedelta(minutes=self._settings().active_profile().worker_minutes))
        for job_type in self._types:
            if job_type.lanes:
                taken = job_type.name in served
                yield from (f for f in self.of_lane(job_type) if not (f.name in self._declared or (f.types and taken)))
            elif job_type.policy.dispatch is Dispatch.SCHEDULED and job_type.name not in served:
                yield Function(job_type.name, types=(job_type.name,), cadence=cadence)
        if self.housekeeping is None:
            from penstock.engine.housekeeping import FUNCTIONS  # it declares functions itself

            self.housekeeping = FUNCTIONS
        yield from (function for function in self.housekeeping if function.name not in self._declared)

    def of_lane(self, job_type: JobType) -> list[Function]:
        """Submitter and collector of a type with a lane; a pace that cannot hold raises `SettingsInvalid` (C-25)."""
        from penstock.engine.batches.pace import lane_functions  # it declares functions itself

        settings = self._settings()
        delete = settings.batch_delete_files
        return list(lane_functions(job_type, settings.active_profile(), self.collector, delete_files=delete))

    def schedules(self) -> list[Declared]:
        """Everything with a cadence, as it goes to the database; a function's schedule has its name."""
        running = [
            Declared(f.name, f.name, None, json.dumps({}), f.cadence.cron, f.cadence.every, f.cadence.timezone)
            for f in self
            if f.cadence is not None
        ]
        taken = {schedule.schedule for schedule in running}.intersection(self._enqueueing)
        if taken:
            raise SettingsInvalid(f"schedule {min(taken)!r} has the name of a function; give it another name")
        return running + list(self._enqueueing.values())

    def types_of(self, function: Function) -> Sequence[JobType]:
        """The types whose jobs *function* runs; an unknown one raises `UnknownType`."""
        return [self._types.get(name) for name in function.types]

    def caps_of(self, function: Function) -> Caps:
        """The bounds of a run of *function*: its own, else the smallest of its types, else the profile's (Q-85)."""
        profile = self._settings().active_profile()
        policies = [job_type.policy for job_type in self.types_of(function)]
        jobs = min((policy.drain_cap for policy in policies), default=profile.max_jobs_per_run)
        runtime = min(
            (policy.max_runtime for policy in policies), default=timedelta(seconds=profile.max_runtime_seconds)
        )
        return Caps(function.max_jobs or jobs, function.max_runtime or runtime)


def _no_adapters() -> Adapters:
    raise SettingsInvalid("these functions belong to no application, so there is no way to a provider")


def _no_collector(job_type: JobType) -> Callable[[RunHandle], Awaitable[None]]:
    raise SettingsInvalid(
        f"the lane of type {job_type.name!r} belongs to no application; declare it with app.lane(...)"
    )
