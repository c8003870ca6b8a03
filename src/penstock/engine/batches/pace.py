"""When a lane works: its submitter and its collector, and the rule that the second keeps ahead of the first."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import SettingsInvalid
from penstock.contract.profiles import COLLECTOR_HEADROOM, DEFAULT_HEADROOM
from penstock.engine.cadences import Cadence
from penstock.engine.functions import Function
from penstock.store import batch_items, submissions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from penstock.contract.profiles import Profile
    from penstock.engine.functions import Pending, RunHandle
    from penstock.engine.registry import JobType
    from penstock.store.connect import Pool

    Collect = Callable[[RunHandle], Awaitable[None]]

_MINUTE: Final = timedelta(minutes=1)
_TICK: Final = timedelta.resolution  # so that both cadences are whole numbers


def lane_functions(
    job_type: JobType, profile: Profile, collect: Callable[[JobType], Collect], *, delete_files: bool = True
) -> Iterator[Function]:
    """The two functions of a lane: one takes jobs to the provider, the other brings answers back (Q-45, Q-46)."""
    lane, name = job_type.lane_schedule, job_type.name
    submit_every = lane.submit_every or profile.submitter_minutes * _MINUTE
    collect_every = lane.collect_every or profile.collector_minutes * _MINUTE
    cap = collector_cap(job_type, profile, submit_every, collect_every)
    yield Function(lane.submitter or f"{name}_batch_submitter", types=(name,), cadence=Cadence(every=submit_every))
    yield Function(
        lane.collector or f"{name}_batch_collector",
        call=collect(job_type),
        cadence=Cadence(every=collect_every),
        pending=_pending(name, delete_files=delete_files),
        max_jobs=cap,
        max_runtime=job_type.policy.max_runtime,
    )


def collector_cap(job_type: JobType, profile: Profile, submit_every: timedelta, collect_every: timedelta) -> int:
    """How many items a collector run may settle; one that the submitter would outrun is refused (C-25)."""

    def within(headroom: float) -> int:
        """Multiplied before it is divided: a quotient of 4000.0000000000005 would be one item more."""
        return math.ceil(headroom * job_type.policy.drain_cap * (collect_every // _TICK) / (submit_every // _TICK))

    cap = job_type.lane_schedule.collector_cap or profile.collector_max_items
    if cap is None:
        return within(DEFAULT_HEADROOM)
    needed = within(COLLECTOR_HEADROOM)
    if cap < needed:
        raise SettingsInvalid(
            f"the collector of type {job_type.name!r} settles {cap} items every {collect_every}, below "
            f"{COLLECTOR_HEADROOM} times the pace of its submitter ({job_type.policy.drain_cap} jobs every "
            f"{submit_every}): batches would pile up; raise collector_cap to {needed}, or run it more often"
        )
    return cap


def _pending(job_type: str, *, delete_files: bool) -> Pending:
    async def pending(pool: Pool) -> int:
        files = await batch_items.count_files(pool, job_type, delete_files=delete_files)
        return files + await submissions.count_open(pool, job_type)

    return pending
