"""Who may share a batch, and who may share a call: all eight parts, or neither (A-51, A-52)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.calls import Execution, Route
from penstock.contract.groups import GroupKey, batch_key, group_key, may_micro_batch

EXAMPLE = Route(
    "openai", "gpt-5.2", "openai_responses", prompt_version="v3", policy_version="v1", lane="same_language",
    source_locale="en-US", target_locale="en-US",
)  # fmt: skip
words = st.text("abcdefghijklmnop0123456789-", min_size=1, max_size=12).filter(lambda word: word[0] != "-")
routes = st.builds(
    Route,
    provider=words,
    model=words,
    adapter=st.sampled_from(["openai_responses", "openai_chat"]),
    base_url=st.none() | st.just("https://eu.example/v1"),
    execution=st.sampled_from(Execution),
    prompt_version=words,
    policy_version=words,
    lane=words,
    source_locale=words,
    target_locale=words,
)
PARTS = (
    "provider", "model", "prompt_version", "policy_version", "execution", "lane", "source_locale", "target_locale",
)  # fmt: skip


@pytest.mark.contract("A-52", "L-52")
def test_the_key_has_eight_parts_in_order() -> None:
    assert GroupKey._fields == (
        "provider", "model", "prompt_version", "policy_version", "execution_mode", "lane", "source_locale",
        "target_locale",
    )  # fmt: skip
    assert group_key(EXAMPLE) == ("openai", "gpt-5.2", "v3", "v1", "batch", "same_language", "en-US", "en-US")


def another(part: str, value: Any) -> Any:
    """A value that differs from *value*, and fits the part."""
    if part == "execution":
        return Execution.ASYNC if value is Execution.BATCH else Execution.BATCH
    return f"{value}x"


@pytest.mark.contract("A-51", "L-51", "C-34")
@given(route=routes, part=st.sampled_from(PARTS))
def test_any_part_that_differs_splits_the_group(route: Route, part: str) -> None:
    other = replace(route, **{part: another(part, getattr(route, part))})

    assert group_key(route) != group_key(other)
    assert not may_micro_batch([route, other], supported=True)
    assert may_micro_batch([route, replace(route)], supported=True)


@pytest.mark.contract("C-33")
@given(route=routes)
def test_another_adapter_or_address_splits_the_batch_but_not_the_group(route: Route) -> None:
    for other in (replace(route, adapter="gemini_generate"), replace(route, base_url="https://us.example/v1")):
        assert group_key(other) == group_key(route)
        assert batch_key(other) != batch_key(route)


@pytest.mark.contract("A-90")
def test_jobs_that_agree_in_everything_have_one_key_and_may_share_a_call() -> None:
    same = [EXAMPLE, replace(EXAMPLE), replace(EXAMPLE)]

    assert len({group_key(route) for route in same}) == 1
    assert may_micro_batch(same, supported=True)


@pytest.mark.contract("A-91", "A-92")
@pytest.mark.parametrize("difference", [{"target_locale": "es-ES"}, {"prompt_version": "v4"}])
def test_a_job_with_another_locale_or_prompt_goes_by_itself(difference: dict[str, str]) -> None:
    changes: dict[str, Any] = {**difference}
    odd = replace(EXAMPLE, **changes)

    assert group_key(odd) != group_key(EXAMPLE)
    assert not may_micro_batch([EXAMPLE, odd, EXAMPLE], supported=True)


@pytest.mark.contract("C-34")
def test_nothing_shares_a_call_with_a_provider_that_cannot_do_it() -> None:
    assert not may_micro_batch([EXAMPLE, EXAMPLE], supported=False)
    assert not may_micro_batch([], supported=True)
