"""Which route is taken: the first rule that holds, the default, and never a second choice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from penstock.apps.rewrite.models import Lane, RoutingDecisionV1, Strength, Surface
from penstock.apps.rewrite.router import RoutingInput, RoutingTable, load_table, route, to_route
from penstock.contract.calls import Execution
from penstock.contract.groups import group_key
from penstock.contract.registry import DOCUMENTS, EXECUTION, LANES, QUEUE
from penstock.providers.registry import KINDS, Adapters
from tests.apps.rewrite.router.support import GEMINI, a_route, a_table, given

JAPANESE = {"name": "japanese", "when": {"target_locale": "ja"}, "route": a_route(model="gpt-5.2-ja")}
CROSS = {"when": {"lane": "cross_language", "surface": "*"}, "route": a_route(**GEMINI)}
EITHER = {"when": {"source_locale": ["de", "nl"], "rewrite_strength": "full_reframe"}, "route": a_route(model="two")}
ANYTHING = {"route": a_route(model="catch-all")}


@pytest.mark.contract("Q-72", "Q-39")
def test_the_default_routing_is_openai_responses_in_batch() -> None:
    for pair in (("en", "en"), ("de", "ja")):
        decision = route(given(*pair), load_table())
        assert decision == RoutingDecisionV1.model_validate(a_route())
        assert (decision.execution_mode, decision.max_retries, decision.base_url) == ("batch", 2, None)


@pytest.mark.parametrize(
    ("asked", "model"),
    [
        (given("en", "ja"), "gpt-5.2-ja"),
        (given("en", "es"), "gemini-3-flash"),
        (given("de", "de", rewrite_strength="full_reframe"), "two"),
        (given("de", "de"), "gpt-5.2"),
        (given("en", "en", rewrite_strength="full_reframe"), "gpt-5.2"),
    ],
)
def test_the_first_rule_that_holds_wins_and_the_default_takes_the_rest(asked: RoutingInput, model: str) -> None:
    assert route(asked, load_table(a_table(JAPANESE, CROSS, EITHER))).model == model


def test_a_rule_without_conditions_takes_everything_below_it() -> None:
    table = load_table(a_table(JAPANESE, ANYTHING, CROSS))

    assert route(given("en", "es"), table).model == "catch-all"
    assert route(given("en", "ja"), table).model == "gpt-5.2-ja"


@pytest.mark.parametrize(("policy", "model"), [("v2", "two"), ("v1", "gpt-5.2"), (None, "gpt-5.2")])
def test_a_rule_may_ask_for_the_version_of_the_policy(policy: str | None, model: str) -> None:
    rule = {"when": {"policy_version": ["v2", "v3.1"]}, "route": a_route(model="two", policy_version="v2")}

    assert route(given(policy_version=policy), load_table(a_table(rule))).model == model


LOCALES = st.sampled_from(["en", "es", "de", "ja", "zh", "hi"])
TABLE = load_table(a_table(JAPANESE, CROSS, EITHER))


@pytest.mark.contract("L-75")
@for_all(source=LOCALES, target=LOCALES, surface=st.sampled_from(Surface), strength=st.sampled_from(Strength))
def test_the_same_input_is_always_routed_the_same_way(
    source: str, target: str, surface: Surface, strength: Strength
) -> None:
    asked = given(source, target, surface=surface, rewrite_strength=strength)
    again = RoutingInput.model_validate_json(asked.model_dump_json())

    first, second = route(asked, TABLE), route(again, load_table(a_table(JAPANESE, CROSS, EITHER)))
    assert first == second
    assert group_key(to_route(first, asked)) == group_key(to_route(second, again))


@pytest.mark.contract("A-42", "A-49")
def test_a_call_has_all_of_the_decision_and_the_locales_unchanged() -> None:
    decision = RoutingDecisionV1.model_validate(a_route(base_url="https://api.openai.com/v1", execution_mode="async"))
    before = decision.model_dump_json()

    call = to_route(decision, given("de", "ja"))

    assert (call.provider, call.adapter, call.base_url) == ("openai", "openai_responses", "https://api.openai.com/v1")
    assert (call.model, call.prompt_version, call.policy_version) == ("gpt-5.2", "v1", "v1")
    assert (call.lane, call.source_locale, call.target_locale) == ("cross_language", "de", "ja")
    assert call.execution is Execution.ASYNC
    assert decision.model_dump_json() == before


@pytest.mark.contract("A-52", "L-52", "Q-73")
def test_the_group_key_of_a_route_has_the_eight_parts() -> None:
    call = to_route(RoutingDecisionV1.model_validate(a_route()), given("en", "es"))

    assert group_key(call) == ("openai", "gpt-5.2", "v1", "v1", "batch", "cross_language", "en", "es")


@pytest.mark.contract("L-53", "L-70")
def test_two_target_locales_never_share_a_group() -> None:
    decision = RoutingDecisionV1.model_validate(a_route())
    keys = {group_key(to_route(decision, given("en", target))) for target in ("en", "es", "pt", "ja")}
    assert len(keys) == 4


@pytest.mark.contract("Q-71")
@pytest.mark.parametrize(
    ("members", "owner"),
    [
        ({}, "openai"),
        (GEMINI, "gemini"),
        ({"provider": "other", "adapter_kind": "anthropic_messages", "model": "claude-haiku-4-5"}, "anthropic"),
    ],
)
def test_a_route_leads_to_the_owner_of_its_adapter_and_to_nobody_else(members: dict[str, Any], owner: str) -> None:
    call = to_route(RoutingDecisionV1.model_validate(a_route(**members)), given())

    assert Adapters({owner: "key"}).problem(call) is None
    others = {kind.provider: "key" for kind in KINDS.values() if kind.provider != owner}
    assert "has no key" in str(Adapters(others).problem(call))


def test_another_vendor_behind_a_known_api_keeps_its_own_key() -> None:
    members = {"provider": "other", "adapter_kind": "openai_chat", "base_url": "https://llm.example.com/v1"}
    table = load_table(a_table(default=a_route(**members)))

    call = to_route(table.default, given())

    assert call.provider == "other"
    assert Adapters({"other": "key"}, hosts=["llm.example.com"]).problem(call) is None
    assert Adapters({"openai": "key"}, hosts=["llm.example.com"]).problem(call) is not None


@pytest.mark.contract("A-87", "L-74", "Q-89")
def test_another_provider_or_model_needs_no_other_version_of_a_contract() -> None:
    before = [(document.name, document.version) for document in DOCUMENTS]
    shape = json.dumps(RoutingDecisionV1.model_json_schema(), sort_keys=True)

    table = load_table(a_table(CROSS, default=a_route(**GEMINI)))

    assert isinstance(table, RoutingTable)
    assert route(given(), table).provider == "google"
    assert [(document.name, document.version) for document in DOCUMENTS] == before
    assert (QUEUE.version, EXECUTION.version, LANES.version) == ("v1.3", "v1.4", "v1.5")
    assert json.dumps(RoutingDecisionV1.model_json_schema(), sort_keys=True) == shape


def test_lanes_are_matched_by_their_own_words() -> None:
    rule = {"when": {"lane": [Lane.SAME_LANGUAGE.value]}, "route": a_route(model="same")}
    table = load_table(a_table(rule))
    assert [route(given("en", target), table).model for target in ("en", "es")] == ["same", "gpt-5.2"]
