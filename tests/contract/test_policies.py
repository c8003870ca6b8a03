"""A value of the wrong kind is refused where it is written: later it would be a job that hangs."""

from __future__ import annotations

import pickle
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from penstock import Breaker, Failed, FailureClass, Limits, Policy, PolicyOptions, Rate, Schedule
from penstock.contract.errors import SettingsInvalid


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"backoff": 5}, r"backoff of type 'x' is a Schedule or a FullJitter, not int: write Schedule\(\[5\]\)"),
        ({"backoff": [900, 7200]}, r"not list: write Schedule\(\[900, 7200\]\)"),
        ({"lease": 300}, r"lease of type 'x' is a timedelta, not int: write timedelta\(seconds=300\)"),
        ({"timeout": 5}, r"timeout of type 'x' is a timedelta or None, not int: write timedelta\(seconds=5\)"),
        ({"timeout": {"run": 5}}, r"the timeout of stage 'run' of type 'x' is a timedelta or None, not int"),
        ({"keep_finished": 7}, r"keep_finished of type 'x' is a timedelta or None, not int"),
        ({"attempts": "3"}, r"attempts of type 'x' is a whole number, not str: write 3"),
        ({"attempts": True}, r"attempts of type 'x' is a whole number, not bool"),
        ({"drain_cap": 10.0}, r"drain_cap of type 'x' is a whole number, not float"),
        ({"idempotent": "no"}, r"idempotent of type 'x' is True or False, not str"),
        ({"stages": "fetch"}, r"stages of type 'x' is a tuple or a list, not str: write \(\"fetch\",\)"),
        ({"stages": (1,)}, r"the name of a stage is a text, not int"),
        ({"limits": 10}, r"limits of type 'x' is a Limits, not int: write Limits\(running=10\)"),
        ({"breaker": 2}, r"breaker of type 'x' is a Breaker, not int: write Breaker\(after=2\)"),
        ({"channel": None}, r"channel of type 'x' is a text, not NoneType"),
    ],
)
def test_a_policy_refuses_a_value_of_the_wrong_kind_and_says_what_to_write(given: Any, said: str) -> None:
    with pytest.raises(SettingsInvalid, match=said):
        Policy("x", **given)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (Rate, {"count": 10, "period": 60}, r"the period of a rate is a timedelta, not int: write timedelta\("),
        (Rate, {"count": "10", "period": timedelta(1)}, "the count of a rate is a whole number, not str: write 10"),
        (Limits, {"rate": 10}, r"limit rate is a Rate or None, not int: write Rate\(10, timedelta\(seconds=1\)\)"),
        (Limits, {"key_running": "2"}, "limit key_running is a whole number or None, not str: write 2"),
        (Breaker, {"cooldown": 60}, r"cooldown of a breaker is a timedelta, not int: write timedelta\(seconds=60\)"),
        (Schedule, {"delays": 900}, r"delays of a backoff schedule is a list or a tuple, not int: write Schedule\("),
        (Policy, {"job_type": 5}, "the name of a job type is a text, not int"),
    ],
)
def test_a_part_of_a_policy_refuses_a_value_of_the_wrong_kind(kind: Any, given: Any, said: str) -> None:
    with pytest.raises(SettingsInvalid, match=said):
        kind(**given)


def test_a_declaration_takes_every_field_of_a_policy() -> None:
    assert PolicyOptions.__optional_keys__ == {field.name for field in fields(Policy)} - {"job_type"}


def test_stages_may_be_a_list() -> None:
    assert Policy("x", stages=["a", "b"]) == Policy("x", stages=("a", "b"))  # type: ignore[arg-type]


def test_a_failure_class_may_be_named_by_its_word() -> None:
    assert Failed("NOT_FOUND").error_class is FailureClass.NOT_FOUND  # type: ignore[arg-type]


def test_a_word_that_is_no_failure_class_is_refused_at_once() -> None:
    with pytest.raises(SettingsInvalid, match=r"such as FailureClass\.NOT_FOUND, not 'the order is gone'"):
        Failed("the order is gone")  # type: ignore[arg-type]


def test_a_failure_survives_the_way_between_processes() -> None:
    sent = Failed(FailureClass.RATE_LIMITED, "later", retry_after=timedelta(seconds=5))
    came = pickle.loads(pickle.dumps(sent))  # noqa: S301 - it was made in the line above
    assert (str(came), came.error_class, came.retry_after) == (str(sent), sent.error_class, sent.retry_after)
