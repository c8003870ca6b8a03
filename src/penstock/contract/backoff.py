"""How long a failed attempt waits for the next one (C-10, C-14, C-15).

Two kinds: `Schedule` reads a list and is exact; `FullJitter` draws anew at
every failure. Both are computed when the attempt has failed, never before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final

from penstock.contract.errors import SettingsInvalid
from penstock.contract.value_kinds import as_delays, refuse_unless_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CEILING: Final = timedelta(minutes=5)  # the most that an upstream's Retry-After may impose (E-19)
LONGEST: Final = 30 * 86_400.0  # seconds; a longer delay is taken for a slip of the pen
MAX_ENTRIES: Final = 100
MAX_MULTIPLIER: Final = 100.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Entry k is the delay in seconds after failed attempt k; the last entry repeats (C-10).

    The delays are exact (Q-68): a `Retry-After` changes them only where
    `honours_retry_after` is set, and then lengthens to 300 s at most.
    """

    delays: Sequence[float]
    honours_retry_after: bool = False
    kind: ClassVar[str] = "schedule"

    def __post_init__(self) -> None:
        refuse_unless_kind("delays of a backoff schedule", self.delays, list, tuple, hint=as_delays)
        refuse_unless_kind("honours_retry_after of a backoff schedule", self.honours_retry_after, bool)
        if not 1 <= len(self.delays) <= MAX_ENTRIES:
            raise SettingsInvalid(f"a backoff schedule has 1 to {MAX_ENTRIES} delays in seconds, such as [900, 7200]")
        delays = tuple(_seconds(f"delay {k} of the schedule", delay) for k, delay in enumerate(self.delays, start=1))
        object.__setattr__(self, "delays", delays)

    def base(self, attempt: int, random: Callable[[], float]) -> timedelta:  # noqa: ARG002 - one shape for both kinds
        """The delay after failed attempt *attempt*, the same every time."""
        entry = min(_ordinal(attempt), len(self.delays)) - 1
        return timedelta(seconds=self.delays[entry])

    def to_json(self) -> dict[str, object]:
        """The form stored in `penstock.types`."""
        return {"kind": self.kind, "delays": list(self.delays), "honours_retry_after": self.honours_retry_after}


@dataclass(frozen=True, slots=True)
class FullJitter:
    """Draw from 0 to min(maximum, initial * multiplier^(attempt - 1)) seconds (E-12 to E-17)."""

    initial: float = 1.0
    multiplier: float = 2.0
    maximum: float = 60.0
    kind: ClassVar[str] = "full_jitter"
    honours_retry_after: ClassVar[bool] = True

    def __post_init__(self) -> None:
        initial = _seconds("the initial delay", self.initial)
        maximum = _seconds("the maximum delay", self.maximum)
        multiplier = _number("the multiplier", self.multiplier)
        if not 1 <= multiplier <= MAX_MULTIPLIER:
            raise SettingsInvalid(f"a backoff's multiplier lies between 1 and {MAX_MULTIPLIER:g}, not {multiplier:g}")
        if initial == 0:
            raise SettingsInvalid("the initial delay of a jittered backoff is above 0; Schedule([0]) retries at once")
        if maximum < initial:
            raise SettingsInvalid(f"the maximum delay {maximum:g} s is below the initial delay {initial:g} s; raise it")
        object.__setattr__(self, "initial", initial)
        object.__setattr__(self, "multiplier", multiplier)
        object.__setattr__(self, "maximum", maximum)

    def bound(self, attempt: int) -> timedelta:
        """The longest delay that failed attempt *attempt* can draw."""
        try:
            seconds = self.initial * self.multiplier ** (_ordinal(attempt) - 1)
        except OverflowError:
            seconds = self.maximum
        return timedelta(seconds=min(self.maximum, seconds))

    def base(self, attempt: int, random: Callable[[], float]) -> timedelta:
        """One draw, made now: *random* gives a number from 0 to 1 and is asked exactly once."""
        return self.bound(attempt) * random()

    def to_json(self) -> dict[str, object]:
        """The form stored in `penstock.types`."""
        return {"kind": self.kind, "initial": self.initial, "multiplier": self.multiplier, "maximum": self.maximum}


_SHAPES: Final = "a backoff is {'kind': 'schedule', 'delays': [...]} or {'kind': 'full_jitter', ...}"
Backoff = Schedule | FullJitter


def from_json(stored: Mapping[str, object]) -> Backoff:
    """Read what `to_json` wrote; anything else is refused, so that no policy is guessed."""
    fields = {name: value for name, value in stored.items() if name != "kind"}
    kinds: dict[str, Callable[..., Backoff]] = {Schedule.kind: Schedule, FullJitter.kind: FullJitter}
    make = kinds.get(str(stored.get("kind")))
    if make is None:
        raise SettingsInvalid(_SHAPES)
    try:
        return make(**fields)
    except TypeError:
        raise SettingsInvalid(_SHAPES) from None


def delay(backoff: Backoff, attempt: int, retry_after: timedelta | None, random: Callable[[], float]) -> timedelta:
    """How long to wait after failed attempt *attempt*: max(base, min(retry_after, 300 s)) (C-15).

    The ceiling limits what an upstream may impose; it never shortens our own
    delay. An exact schedule does not listen to `Retry-After` at all.
    """
    base = backoff.base(attempt, random)
    if retry_after is None or not backoff.honours_retry_after:
        return base
    return max(base, min(retry_after, CEILING))


def _ordinal(attempt: int) -> int:
    if attempt < 1:
        raise ValueError(f"attempts are counted from 1, not {attempt}")
    return attempt


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SettingsInvalid(f"{what} must be a finite number, not {value!r}")
    return float(value)


def _seconds(what: str, value: object) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    seconds = _number(what, value)
    if not 0 <= seconds <= LONGEST:
        raise SettingsInvalid(f"{what} must lie between 0 and {LONGEST:g} seconds (30 days), not {seconds:g}")
    return seconds
