"""What is kept of an answer: findings that point into the part, each once, in one order; nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apps.review.critic import MOST, findings_of
from penstock.apps.review.critic.answers import LONGEST_MESSAGE, LONGEST_SUGGESTION
from penstock.apps.review.models import Severity
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass, is_retryable
from tests.apps.review.critic.support import LINES, answer, cut_part, remark

PART = cut_part()
paths = st.sampled_from(["shop/cart.py", "b/shop/cart.py", "./shop/cart.py", "shop/other.py", "", "/etc/passwd"])
remarks = st.fixed_dictionaries({
    "file": paths | st.text(max_size=20),
    "line": st.integers(-3, 20) | st.integers(),
    "severity": st.sampled_from([str(each) for each in Severity]),
    "message": st.text(max_size=30) | st.sampled_from(["same", " Same ", "same\n"]),
    "suggestion": st.none() | st.text(max_size=30),
})  # fmt: skip


@given(said=st.lists(remarks, max_size=12))
def test_no_finding_outside_the_part_survives_and_nothing_is_lost_uncounted(said: list[dict[str, Any]]) -> None:
    judged = findings_of(answer(*said), PART)
    assert all(found.line in LINES[found.file] for found in judged.findings)
    assert len(judged.findings) + judged.dropped <= len(said)
    inside = sum(each["file"].endswith("shop/cart.py") and each["line"] in LINES["shop/cart.py"] for each in said)
    assert judged.dropped >= len(said) - inside
    assert judged.findings == tuple(sorted(judged.findings, key=lambda found: found.place))


@given(said=st.lists(remarks, max_size=8).flatmap(lambda made: st.tuples(st.just(made), st.permutations(made))))
def test_the_order_of_an_answer_decides_nothing_about_place_and_severity(said: tuple[list[Any], list[Any]]) -> None:
    def kept(judged: Any) -> tuple[list[tuple[str, int, Severity]], int]:
        return [(found.file, found.line, found.severity) for found in judged.findings], judged.dropped

    assert kept(findings_of(answer(*said[0]), PART)) == kept(findings_of(answer(*said[1]), PART))


@given(text=st.text(max_size=60))
def test_whatever_is_kept_can_be_stored_and_shown(text: str) -> None:
    judged = findings_of(answer(remark(message=f"x{text}", suggestion=text)), PART)
    stored = json.dumps([found.model_dump(mode="json") for found in judged.findings])
    assert not any("\0" in str(value) for found in json.loads(stored) for value in found.values())
    for found in judged.findings:
        kept = found.message + (found.suggestion or "")
        assert all(character in "\t\n" or ord(character) >= 0x20 for character in kept)


def test_the_part_under_test_has_the_lines_that_the_tests_count_on() -> None:
    assert PART.lines == LINES


def test_lines_of_another_file_or_of_none_are_dropped_and_counted() -> None:
    judged = findings_of(answer(remark(), remark(line=7), remark(line=12), remark(line=0), remark(file="x.py")), PART)
    assert [(found.file, found.line) for found in judged.findings] == [("shop/cart.py", 9)]
    assert judged.dropped == 4


def test_the_same_remark_twice_is_one_finding_as_grave_as_the_graver() -> None:
    twice = remark(severity="note", suggestion="mend it"), remark(severity="critical", message=" it  FAILS.")
    judged = findings_of(answer(*twice), PART)
    assert [(found.severity, found.suggestion) for found in judged.findings] == [(Severity.CRITICAL, "mend it")]
    assert judged.dropped == 0


def test_of_too_many_the_gravest_stay() -> None:
    many = [remark(message=f"{number}", severity="note") for number in range(MOST)]
    judged = findings_of(answer(*many, remark(severity="critical")), PART)
    assert len(judged.findings) == MOST
    assert judged.dropped == 1
    assert Severity.CRITICAL in {found.severity for found in judged.findings}


def test_a_remark_without_words_is_dropped_and_an_endless_one_is_cut() -> None:
    judged = findings_of(answer(remark(message=" \n"), remark(message="m" * 9000, suggestion="s" * 9000)), PART)
    assert judged.dropped == 1
    (found,) = judged.findings
    assert len(found.message) == LONGEST_MESSAGE
    assert len(found.suggestion or "") == LONGEST_SUGGESTION


@pytest.mark.contract("E-06")
@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "findings",
        {},
        {"findings": None},
        {"findings": {}},
        {**answer(), "more": 1},
        answer(remark(line="9")),
        answer(remark(line=True)),
        answer(remark(line=9.0)),
        answer(remark(severity="blocker")),
        answer(remark(message=None)),
        answer(remark(extra="canary-code")),
        answer({name: value for name, value in remark().items() if name != "suggestion"}),
    ],
)
def test_an_answer_of_another_shape_is_refused_for_good_and_not_repeated(data: Any) -> None:
    with pytest.raises(Failed) as refused:
        findings_of(data, PART)
    assert refused.value.error_class is FailureClass.SCHEMA_INVALID
    assert not is_retryable(refused.value.error_class, idempotent=True)
    assert refused.value.__context__ is None
    assert "canary" not in str(refused.value)


def test_no_repr_shows_what_was_found() -> None:
    judged = findings_of(answer(remark(message="canary", suggestion="canary")), PART)
    assert "canary" not in repr(judged) + repr(judged.findings)
