"""The stored decision: nine members, closed lists, and no room for a message."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.apps.rewrite.models import RoutingDecisionV1, json_schema
from penstock.apps.rewrite.router import RoutingInput, load_table, route
from tests.apps.rewrite.evaluation.support import a_request
from tests.apps.rewrite.router.support import a_route, given

CANARY = "you never wash the canary-7f3a dishes"
NINE = [
    "provider",
    "adapter_kind",
    "base_url",
    "model",
    "prompt_version",
    "policy_version",
    "execution_mode",
    "cache_eligible",
    "max_retries",
]


@pytest.mark.contract("Q-32")
def test_a_stored_decision_has_the_nine_members_and_no_other() -> None:
    stored = route(given(), load_table()).model_dump(mode="json")

    assert list(stored) == NINE
    assert RoutingDecisionV1.model_validate(stored, strict=True) == route(given(), load_table())
    assert json_schema(RoutingDecisionV1)["additionalProperties"] is False


@pytest.mark.contract("Q-33", "Q-37")
@pytest.mark.parametrize(
    ("member", "words"),
    [("provider", {"openai", "google", "other"}), ("execution_mode", {"async", "batch"})],
)
def test_provider_and_mode_are_words_of_closed_lists(member: str, words: set[str]) -> None:
    assert set(json_schema(RoutingDecisionV1)["properties"][member]["enum"]) == words
    for word in words:
        RoutingDecisionV1.model_validate(a_route(**{member: word}))
    with pytest.raises(ValidationError):
        RoutingDecisionV1.model_validate(a_route(**{member: "carrier_pigeon"}))


@pytest.mark.contract("Q-36")
@pytest.mark.parametrize("member", ["model", "prompt_version", "policy_version"])
def test_model_and_versions_are_required_and_not_empty(member: str) -> None:
    without = {name: value for name, value in a_route().items() if name != member}
    for broken in (without, a_route(**{member: ""}), a_route(**{member: None})):
        with pytest.raises(ValidationError):
            RoutingDecisionV1.model_validate(broken)


@pytest.mark.contract("Q-35", "Q-38", "Q-39")
@pytest.mark.parametrize(
    ("member", "good", "bad"),
    [
        ("base_url", [None, "https://api.openai.com/v1", "http://127.0.0.1:4020/v1"], ["ftp://host/v1", "host", 7]),
        ("cache_eligible", [True, False], ["perhaps", None, 2]),
        ("max_retries", [0, 2, 20], [-1, 21, 1.5, None]),
    ],
)
def test_the_other_members_have_their_types(member: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(RoutingDecisionV1.model_validate(a_route(**{member: value})), member) == value
    for value in bad:
        with pytest.raises(ValidationError):
            RoutingDecisionV1.model_validate(a_route(**{member: value}))


@pytest.mark.contract("Q-41", "Q-88")
def test_nothing_of_a_request_is_in_the_decision_that_is_stored_for_it() -> None:
    request = a_request(CANARY, target="es", terms=("canary-7f3a",))
    told = request.model_dump(include=set(RoutingInput.model_fields) & set(type(request).model_fields))

    stored = route(RoutingInput.model_validate(told), load_table()).model_dump_json()

    assert not any(word in stored for word in CANARY.split())


@pytest.mark.contract("Q-41")
def test_a_member_that_holds_the_message_is_refused_and_its_text_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as raised:
        RoutingDecisionV1.model_validate(a_route(message_text=CANARY))
    assert CANARY not in str(raised.value)


@pytest.mark.contract("Q-41")
@pytest.mark.parametrize("member", NINE)
def test_no_member_of_a_decision_takes_a_message(member: str) -> None:
    with pytest.raises(ValidationError):
        RoutingDecisionV1.model_validate(a_route(**{member: CANARY}))


@pytest.mark.contract("Q-88")
def test_the_router_is_given_words_of_closed_lists_two_languages_and_a_number() -> None:
    schema = json_schema(RoutingInput)
    fields = schema["properties"]

    assert set(fields) == {
        "surface", "lane", "source_locale", "target_locale", "rewrite_strength", "policy_version",
    }  # fmt: skip
    assert schema["additionalProperties"] is False
    for name in ("surface", "lane", "rewrite_strength"):
        assert schema["$defs"][fields[name]["$ref"].rpartition("/")[2]]["enum"]
    for name in ("source_locale", "target_locale"):
        assert fields[name]["pattern"] == "^[a-z]{2,3}$"
    assert fields["policy_version"]["anyOf"][0]["pattern"].startswith("^v[0-9]")


@pytest.mark.contract("Q-88")
@pytest.mark.parametrize("member", [*RoutingInput.model_fields, "message_text", "text", "topics"])
@pytest.mark.parametrize("text", [CANARY, "dishes"])
def test_no_member_of_the_routers_input_takes_a_text(member: str, text: str) -> None:
    with pytest.raises(ValidationError) as raised:
        given(**{member: text})
    assert text not in str(raised.value)


@pytest.mark.contract("Q-88", "L-28")
@pytest.mark.parametrize(("source", "target", "lane"), [("en", "en", "cross_language"), ("en", "es", "same_language")])
def test_an_input_whose_lane_contradicts_its_locales_is_refused(source: str, target: str, lane: str) -> None:
    with pytest.raises(ValidationError):
        given(source, target, lane=lane)
