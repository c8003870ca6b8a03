"""Ticks: fixed intervals, cron lines, time zones and summer time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.errors import SettingsInvalid
from penstock.engine.cadences import MOST_COUNTED, Cadence

NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def ticks(cadence: Cadence, start: datetime, count: int) -> list[datetime]:
    found = []
    for _ in range(count):
        start = cadence.after(start)
        found.append(start)
    return found


@pytest.mark.contract("Q-44")
def test_an_interval_ticks_at_fixed_times_whenever_it_was_declared() -> None:
    quarter = Cadence(every=timedelta(minutes=15))

    assert quarter.after(NOON) == NOON + timedelta(minutes=15)
    assert quarter.after(NOON + timedelta(minutes=7, seconds=3)) == NOON + timedelta(minutes=15)
    assert quarter.after(NOON - timedelta(microseconds=1)) == NOON


@given(
    every=st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=366)),
    moment=st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - a bound
)
def test_the_tick_after_a_moment_is_later_and_no_further_than_the_interval(every: timedelta, moment: datetime) -> None:
    cadence = Cadence(every=every)
    tick = cadence.after(moment)

    assert moment < tick <= moment + every
    assert cadence.after(tick) - tick == every
    assert cadence.overdue(tick, tick) == (tick, 0)


@given(
    every=st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=2)),
    late=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=30)),
)
def test_of_all_overdue_ticks_the_newest_runs_and_the_others_are_counted(every: timedelta, late: timedelta) -> None:
    cadence = Cadence(every=every)
    first = cadence.after(NOON)
    newest, missed = cadence.overdue(first, first + late)

    assert newest == first + missed * every
    assert newest <= first + late < newest + every


def test_a_cron_line_ticks_in_its_time_zone() -> None:
    nightly = Cadence(cron="30 3 * * *", timezone="Asia/Kolkata")

    assert nightly.after(NOON) == datetime(2026, 3, 10, 22, 0, tzinfo=UTC)


def test_a_time_that_does_not_exist_in_spring_runs_right_after_the_gap() -> None:
    nightly = Cadence(cron="30 2 * * *", timezone="Europe/Berlin")

    found = [t.astimezone(BERLIN).isoformat() for t in ticks(nightly, datetime(2026, 3, 28, 12, tzinfo=UTC), 2)]

    assert found == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]


def test_a_time_that_comes_twice_in_autumn_runs_once() -> None:
    nightly = Cadence(cron="30 2 * * *", timezone="Europe/Berlin")

    found = [t.astimezone(BERLIN).isoformat() for t in ticks(nightly, datetime(2026, 10, 24, 12, tzinfo=UTC), 2)]
    between = nightly.after(datetime(2026, 10, 25, 1, 10, tzinfo=UTC))  # 02:10 for the second time

    assert found == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    assert between == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize("day", [datetime(2026, 3, 28, 22, tzinfo=UTC), datetime(2026, 10, 24, 22, tzinfo=UTC)])
def test_an_hourly_line_runs_every_hour_through_a_change_of_time(day: datetime) -> None:
    found = ticks(Cadence(cron="0 * * * *", timezone="Europe/Berlin"), day, 8)

    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(hours=1)}


def test_the_ticks_of_a_cron_line_that_were_missed_are_counted() -> None:
    hourly = Cadence(cron="0 * * * *")

    assert hourly.overdue(NOON, NOON + timedelta(hours=5, minutes=59)) == (NOON + timedelta(hours=5), 5)
    assert hourly.overdue(NOON, NOON) == (NOON, 0)


def test_after_years_of_absence_the_newest_tick_is_still_right_and_the_count_is_capped() -> None:
    each_minute = Cadence(cron="* * * * *")
    now = NOON + timedelta(days=3 * 365, seconds=30)

    assert each_minute.overdue(NOON, now) == (now - timedelta(seconds=30), MOST_COUNTED)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "either an interval"),
        ({"every": timedelta(minutes=1), "cron": "* * * * *"}, "either an interval"),
        ({"every": timedelta(0)}, "between 1 second and 366 days, not 0:00:00"),
        ({"every": timedelta(days=-1)}, "between 1 second"),
        ({"every": timedelta(days=400)}, "between 1 second"),
        ({"cron": "61 * * * *"}, "'61 [*] [*] [*] [*]' is not understood"),
        ({"cron": "* * *"}, "is not understood"),
        ({"cron": "5L/2 * * * *"}, "is not understood"),
        ({"cron": ""}, "is not understood"),
        ({"cron": "0 0 30 2 *"}, "is not understood"),
        ({"cron": "0 0 */31 2 MON#5"}, "never comes"),
        ({"cron": "* * * * *", "timezone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"cron": "* * * * *", "timezone": "../../etc/passwd"}, "no time zone"),
    ],
)
def test_a_cadence_that_makes_no_sense_is_refused_in_words(given: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsInvalid, match=told):
        Cadence(**given)  # type: ignore[arg-type]
