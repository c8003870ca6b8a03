"""When a schedule is due: every so often, or by a cron line in a time zone.

A tick is one due time. Ticks are a function of the cadence alone and of
nothing that happened: `every` counts from the Unix epoch (every 15 minutes
means :00, :15, :30 and :45), so a restart or a second scheduler does not
shift them. Cron lines follow Debian's rules for summer time, as cronsim has
them: a time that does not exist that night runs right after the gap, a time
that exists twice runs once; lines with `*` hours run through both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from penstock.contract.errors import SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST: Final = timedelta(seconds=1)
LONGEST: Final = timedelta(days=366)
MOST_COUNTED: Final = 100_000  # missed ticks beyond this are not told apart: counting them would take seconds


@dataclass(frozen=True, slots=True)
class Cadence:
    """A fixed interval or a cron line, never both."""

    every: timedelta | None = None
    cron: str | None = None
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if (self.every is None) == (self.cron is None):
            raise SettingsInvalid("a schedule has either an interval (every) or a cron line (cron); give one of them")
        if self.every is not None and not SHORTEST <= self.every <= LONGEST:
            raise SettingsInvalid(f"a schedule's interval lies between 1 second and 366 days, not {self.every}")
        zone = _zone(self.timezone)
        if self.cron is not None:
            _check_cron(self.cron, zone)

    def after(self, moment: datetime) -> datetime:
        """The first tick later than *moment*."""
        if self.every is not None:
            return EPOCH + self.every * ((moment - EPOCH) // self.every + 1)
        return next(self._ticks(moment))

    def overdue(self, first: datetime, now: datetime) -> tuple[datetime, int]:
        """The last tick up to *now*, and how many were missed before it; *first* is the oldest that has not run."""
        if self.every is not None:
            last = max(first, EPOCH + self.every * ((now - EPOCH) // self.every))
            return last, (last - first) // self.every
        last, missed = first, 0
        for tick in self._ticks(first):
            if tick > now:
                break
            if missed == MOST_COUNTED:
                return self._newest(now, last), missed
            last, missed = tick, missed + 1
        return last, missed

    def _ticks(self, moment: datetime) -> Iterator[datetime]:
        """Ticks later than *moment*, in order."""
        assert self.cron is not None  # noqa: S101 - the caller has looked
        local = moment.astimezone(_zone(self.timezone))
        for tick in CronSim(self.cron, local):
            utc = tick.astimezone(UTC)
            if utc > moment:  # in the hour that comes twice, cronsim may answer with its first pass
                yield utc

    def _newest(self, now: datetime, known: datetime) -> datetime:
        assert self.cron is not None  # noqa: S101 - the caller has looked
        local = now.astimezone(_zone(self.timezone)) + timedelta(seconds=1)
        tick = next(CronSim(self.cron, local, reverse=True)).astimezone(UTC)
        return tick if known < tick <= now else known

    def __str__(self) -> str:
        """As the listings show it."""
        if self.every is not None:
            return f"every {self.every}"
        return f"{self.cron} ({self.timezone})"


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # cronsim takes a shorter way for this one
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        raise SettingsInvalid(f"there is no time zone {name[:50]!r}; use a name such as Europe/Berlin or UTC") from None


def _check_cron(line: str, zone: tzinfo) -> None:
    try:
        next(CronSim(line, EPOCH.astimezone(zone)))
    except (CronSimError, AssertionError) as error:
        raise SettingsInvalid(
            f"cron line {line[:100]!r} is not understood ({str(error) or 'a part of it'}); "
            "write minute, hour, day, month and weekday, such as '*/15 * * * *' or '30 3 * * mon'"
        ) from None
    except StopIteration:
        raise SettingsInvalid(f"cron line {line[:100]!r} names a time that never comes; check day and month") from None
