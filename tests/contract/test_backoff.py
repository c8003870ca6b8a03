"""Delays after failed attempts."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.backoff import CEILING, Backoff, FullJitter, Schedule, delay, from_json
from penstock.contract.errors import SettingsInvalid
from penstock.contract.profiles import PROFILES
from penstock.contract.retry_after import parse_retry_after

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
ENRICHMENT = Schedule([0, 30, 300], honours_retry_after=True)
JITTER = FullJitter()


def seconds(backoff: Backoff, attempt: int, retry_after: float | None = None, drawn: float = 0.5) -> float:
    asked = None if retry_after is None else timedelta(seconds=retry_after)
    return delay(backoff, attempt, asked, lambda: drawn).total_seconds()


@pytest.mark.contract("E-12", "E-13", "E-14")
def test_the_defaults_are_one_second_doubling_to_a_minute() -> None:
    assert (JITTER.initial, JITTER.multiplier, JITTER.maximum) == (1.0, 2.0, 60.0)


@pytest.mark.contract("E-15")
@pytest.mark.parametrize(("attempt", "bound"), [(1, 1), (2, 2), (3, 4), (4, 8)])
def test_ten_thousand_draws_fill_the_range_and_never_leave_it(attempt: int, bound: float) -> None:
    draw = random.Random(7).random  # noqa: S311 - a seed is the point
    drawn = [JITTER.base(attempt, draw).total_seconds() for _ in range(10_000)]

    assert all(0 <= value <= bound for value in drawn)
    tenths = {int(value / bound * 10) for value in drawn}
    assert tenths >= set(range(10))


@pytest.mark.contract("E-14", "C-16")
@given(attempt=st.integers(7, 10**9))
def test_the_bound_stays_at_a_minute_from_the_seventh_attempt_on(attempt: int) -> None:
    assert JITTER.bound(attempt) == timedelta(seconds=60)


@pytest.mark.contract("E-17", "C-14")
def test_the_delay_is_drawn_anew_once_per_failed_attempt() -> None:
    calls: list[float] = []

    def draw() -> float:
        calls.append(len(calls) / 10)
        return calls[-1]

    delays = [delay(JITTER, 3, None, draw) for _ in range(3)]

    assert len(calls) == 3
    assert len(set(delays)) == 3


@pytest.mark.contract("E-17")
def test_two_seeds_give_two_different_series() -> None:
    first, second = random.Random(1).random, random.Random(2).random  # noqa: S311 - a seed is the point

    assert [JITTER.base(k, first) for k in range(1, 5)] != [JITTER.base(k, second) for k in range(1, 5)]


@pytest.mark.contract("E-16", "E-18")
def test_a_retry_after_counts_where_it_is_longer_than_the_draw() -> None:
    assert seconds(JITTER, 1, retry_after=120) == 120
    assert seconds(JITTER, 4, retry_after=0) == 4
    assert seconds(JITTER, 4, retry_after=3) == 4
    assert seconds(JITTER, 4, retry_after=None) == 4


@pytest.mark.contract("E-19")
def test_no_upstream_may_impose_more_than_five_minutes() -> None:
    assert seconds(JITTER, 1, retry_after=3600) == 300
    assert timedelta(minutes=5) == CEILING


@pytest.mark.contract("E-16", "E-18", "E-19", "C-15")
@given(attempt=st.integers(1, 60), asked=st.floats(0, 10**6), drawn=st.floats(0, 1))
def test_a_jittered_delay_lies_between_the_draw_and_the_ceiling(attempt: int, asked: float, drawn: float) -> None:
    base = JITTER.base(attempt, lambda: drawn).total_seconds()

    assert seconds(JITTER, attempt, asked, drawn) == pytest.approx(max(base, min(asked, 300)), abs=1e-6)


@pytest.mark.contract("Q-68", "C-15")
@given(attempt=st.integers(1, 9), asked=st.none() | st.floats(0, 10**6), drawn=st.floats(0, 1))
def test_a_contract_schedule_is_exact_whatever_an_upstream_asks(
    attempt: int, asked: float | None, drawn: float
) -> None:
    base = PROFILES["base"].backoff

    assert seconds(base, attempt, asked, drawn) == (900 if attempt == 1 else 7200)


@pytest.mark.contract("C-10")
def test_the_last_entry_of_a_schedule_repeats() -> None:
    assert [seconds(Schedule([1, 5]), k) for k in (1, 2, 3, 100)] == [1, 5, 5, 5]


@pytest.mark.contract("D-55", "D-56", "D-57", "D-76", "C-09")
def test_enrichment_waits_nothing_then_half_a_minute_then_five_minutes() -> None:
    assert [seconds(ENRICHMENT, k) for k in (1, 2, 3)] == [0, 30, 300]


@pytest.mark.contract("C-15")
def test_enrichment_listens_to_an_upstream_up_to_five_minutes() -> None:
    assert [seconds(ENRICHMENT, k, retry_after=3600) for k in (1, 2, 3)] == [300, 300, 300]
    assert [seconds(ENRICHMENT, k, retry_after=10) for k in (1, 2, 3)] == [10, 30, 300]


@pytest.mark.contract("A-64", "L-57")
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_delays_of_every_profile_grow(name: str) -> None:
    delays = PROFILES[name].retry_backoff_seconds

    assert all(later > sooner for sooner, later in pairwise(delays))


@given(
    st.builds(Schedule, st.lists(st.floats(0, 86_400), min_size=1, max_size=9), st.booleans())
    | st.builds(FullJitter, st.floats(0.01, 60), st.floats(1, 10), st.floats(60, 3600))
)
def test_a_backoff_survives_being_stored(backoff: Backoff) -> None:
    assert from_json(backoff.to_json()) == backoff


@pytest.mark.parametrize(
    "stored",
    [{}, {"kind": "magic"}, {"kind": "schedule"}, {"kind": "full_jitter", "jitter": 3}, {"kind": ["schedule"]}],
)
def test_a_stored_backoff_of_another_shape_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(SettingsInvalid, match="a backoff is"):
        from_json(stored)


@pytest.mark.parametrize("delays", [[], [-1], [float("nan")], [10**9], ["900"], [True], [1] * 101])
def test_an_absurd_schedule_is_refused(delays: list[Any]) -> None:
    with pytest.raises(SettingsInvalid):
        Schedule(delays)


@pytest.mark.parametrize(
    "values", [(0, 2, 60), (-1, 2, 60), (1, 0.5, 60), (1, 1000, 60), (5, 2, 1), (1, float("inf"), 60), ("1", 2, 60)]
)
def test_absurd_jitter_is_refused(values: tuple[Any, Any, Any]) -> None:
    with pytest.raises(SettingsInvalid):
        FullJitter(*values)


@pytest.mark.contract("C-07")
@pytest.mark.parametrize("backoff", [JITTER, ENRICHMENT])
def test_attempts_are_counted_from_one(backoff: Backoff) -> None:
    with pytest.raises(ValueError, match="from 1"):
        backoff.base(0, lambda: 0.5)


@pytest.mark.contract("E-03")
@given(st.text())
def test_any_header_is_read_or_ignored_and_never_raises(value: str) -> None:
    wait = parse_retry_after(value, NOW)

    assert wait is None or timedelta(0) <= wait <= timedelta(days=365)


@pytest.mark.contract("E-03")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        (" 17 ", 17),
        ("2.5", 2.5),
        ("9" * 5000, 365 * 86_400),
        ("Sun, 15 Nov 2026 12:00:10 GMT", 10),
        ("Sunday, 15-Nov-26 12:00:10 GMT", 10),
        ("Sun Nov 15 12:00:10 2026", 10),
        ("Sat, 14 Nov 2026 12:00:10 GMT", 0),
    ],
)
def test_seconds_and_all_three_forms_of_a_date_are_read(value: str, expected: float) -> None:
    assert parse_retry_after(value, NOW) == timedelta(seconds=expected)
