"""Asking a model once: the way to an adapter, the call, and what it used."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from penstock.contract.calls import NOTHING, Execution
from penstock.contract.errors import Failed, SettingsInvalid
from penstock.contract.failures import FailureClass
from penstock.engine.patience import persist
from penstock.store import spend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.contract.calls import Answer, Request, Route, Usage
    from penstock.contract.policies import Policy
    from penstock.engine.running import Running
    from penstock.engine.workplace import Workplace
    from penstock.providers.port import Adapter
    from penstock.settings import Settings

LONGEST: Final = 600.0  # seconds that one call may take where the stage has no limit


class Adapters(Protocol):
    """One adapter per kind and address, made when first asked for and kept."""

    def get(self, route: Route) -> Adapter:
        """The adapter of *route*; `Failed(CONFIG_INVALID)` when there is no such kind, or no key for it."""

    def knows(self, kind: str) -> bool:
        """Whether there is such a kind at all, whatever it lacks."""

    def problem(self, kind: Route | str, base_url: str | None = None) -> str | None:
        """Why there is no adapter for this, and what to do next; None when there is one."""

    async def close(self) -> None:
        """Give every connection back."""


class GivenAdapters:
    """Adapters that the application brings itself."""

    def __init__(self, factories: Mapping[str, Callable[[str | None], Adapter]]) -> None:
        self._factories = dict(factories)
        self._made: dict[tuple[str, str | None], Adapter] = {}

    def get(self, route: Route) -> Adapter:
        """The adapter of *route*; `Failed(CONFIG_INVALID)` when there is no such kind."""
        place = route.adapter, route.base_url or None
        if place not in self._made:
            if not self.knows(route.adapter):
                known = ", ".join(sorted(self._factories))
                raise Failed(FailureClass.CONFIG_INVALID, f"there is no adapter {route.adapter!r}; there are {known}")
            self._made[place] = self._factories[route.adapter](place[1])
        return self._made[place]

    def knows(self, kind: str) -> bool:
        """Whether there is a factory for *kind*."""
        return kind in self._factories

    def problem(self, kind: Route | str, base_url: str | None = None) -> str | None:  # noqa: ARG002 - as the port has it
        """What to do about a kind that has no factory."""
        name = kind if isinstance(kind, str) else kind.adapter
        if self.knows(name):
            return None
        return f"there is no adapter {name!r}; choose one of {', '.join(sorted(self._factories))}"

    async def close(self) -> None:
        """Give every connection back."""
        made, self._made = self._made, {}
        for adapter in made.values():
            await adapter.close()


def from_settings(settings: Settings) -> Adapters:
    """The adapters that come with Penstock, with keys from the settings."""
    from penstock.providers.registry import Adapters as Provided  # the SDKs are extras, and slow to start

    return Provided(settings)


async def ask(place: Workplace, running: Running, request: Request) -> Answer:
    """One call, within what is left of the time of its stage (C-63)."""
    if place.adapters is None:
        raise SettingsInvalid("this worker has no way to a provider; make it with app.worker(...)")
    adapter = place.adapters().get(request.route)
    running.run.count_calls(request.route.provider, request.route.model)
    policy = running.job_type.policy
    try:
        answer = await adapter.call(request, seconds=_seconds(running))
    except Failed as failed:  # an answer that counts for nothing is paid for all the same
        if failed.usage is not None and failed.usage != NOTHING:
            await record_usage(place, policy, request.route, failed.usage)
        raise
    await record_usage(place, policy, request.route, answer.usage)
    return answer


async def record_usage(place: Workplace, policy: Policy, route: Route, usage: Usage) -> None:
    """Add what a call used to the spend of the day; the call that passes the cap pauses its type (C-64).

    The answer is there and paid for: a database that is away right now does
    not turn it into a failure.
    """
    await persist(
        "spend",
        lambda: spend.record(
            place.pool, policy.job_type, route, usage, Execution.ASYNC, prices=place.prices, cap=policy.cap_micros
        ),
    )


def _seconds(running: Running) -> float:
    if running.deadline is None:
        return LONGEST
    return max(0.1, min(LONGEST, running.deadline - asyncio.get_running_loop().time()))
