"""A table that is wrong anywhere is refused whole, and the error says where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.apps.rewrite.router import load_table
from penstock.contract.errors import SettingsInvalid
from tests.apps.rewrite.router.support import ROUTE, a_route, a_table

GOOD = {"when": {}, "route": ROUTE}


def refused(source: str, **options: Any) -> str:
    with pytest.raises(SettingsInvalid) as raised:
        load_table(source, **options)
    assert raised.value.__cause__ is None
    return str(raised.value)


def test_a_table_is_read_from_a_file_or_from_its_text(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    path.write_text(a_table(GOOD))

    assert load_table(str(path)) == load_table(a_table(GOOD))


@pytest.mark.parametrize(
    "source",
    ["no/such/file.json", "", "{", '{"rules": [', "[]", "bad\0name", "{" * 100_000, "."],
)
def test_what_is_no_table_is_refused(source: str) -> None:
    assert "routing table" in refused(source)


def test_a_file_too_large_or_not_text_is_refused(tmp_path: Path) -> None:
    large, binary = tmp_path / "large", tmp_path / "binary"
    large.write_text("{" + " " * 1_000_001 + "}")
    binary.write_bytes(b"\xff\xfe{}")
    assert "1 MB" in refused(str(large))
    assert "readable JSON" in refused(str(binary))


def test_a_table_needs_a_default() -> None:
    assert "default" in refused(json.dumps({"rules": [GOOD]}))


@pytest.mark.parametrize("member", list(ROUTE))
def test_a_route_gives_all_nine_members(member: str) -> None:
    without = {name: value for name, value in ROUTE.items() if name != member}
    assert f"rule 2 of the routing table lacks {member}" in refused(a_table(GOOD, {"route": without}))


@pytest.mark.contract("Q-32", "Q-41")
@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"default": ROUTE, "fallback": ROUTE}, "unknown member 'fallback'"),
        ({"default": {**ROUTE, "message_text": "x"}}, "the default of the routing table has an unknown member"),
        ({"default": ROUTE, "rules": [{**GOOD, "name": "late", "else": ROUTE}]}, "rule 1 of the routing table has"),
        (
            {"default": ROUTE, "rules": [GOOD, {"name": "late", "when": {"text": "x"}, "route": ROUTE}]},
            "rule 2 (late) of the routing table: when.text",
        ),
    ],
)
def test_an_unknown_member_is_refused_wherever_it_stands(table: dict[str, Any], where: str) -> None:
    assert where in refused(json.dumps(table))


@pytest.mark.parametrize(
    ("when", "member"),
    [
        ({"surface": "billboard"}, "when.surface"),
        ({"lane": "fast"}, "when.lane"),
        ({"target_locale": "es-MX"}, "when.target_locale"),
        ({"source_locale": "und"}, "when.source_locale"),
        ({"source_locale": []}, "when.source_locale"),
        ({"rewrite_strength": ["light_touch", "brutal"]}, "when.rewrite_strength"),
        ({"policy_version": "the one about dishes"}, "when.policy_version"),
        ("always", "when"),
    ],
)
def test_a_condition_that_could_never_hold_is_refused_with_its_member(when: Any, member: str) -> None:
    assert f"rule 1 of the routing table: {member}" in refused(a_table({"when": when, "route": ROUTE}))


@pytest.mark.contract("Q-33", "Q-36", "Q-37", "Q-38", "Q-39")
@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("provider", "azure"),
        ("model", ""),
        ("model", "a model with spaces"),
        ("prompt_version", None),
        ("execution_mode", "later"),
        ("cache_eligible", "true"),
        ("max_retries", True),
        ("max_retries", "2"),
        ("max_retries", -1),
        ("base_url", "file:///etc/passwd"),
    ],
)
def test_a_member_of_the_wrong_kind_is_refused_with_its_name(member: str, value: Any) -> None:
    message = refused(a_table({"name": "odd", "route": a_route(**{member: value})}))
    assert f"rule 1 (odd) of the routing table: route.{member}" in message


@pytest.mark.contract("Q-34")
def test_a_kind_without_an_adapter_is_refused_unless_it_was_registered() -> None:
    table = a_table(default=a_route(provider="other", adapter_kind="echo"))

    assert "adapter_kind is unknown; choose one of anthropic_messages, gemini_generate" in refused(table)
    assert load_table(table, kinds={"echo"}).default.adapter_kind == "echo"
    assert "adapter_kind is unknown; choose one of echo" in refused(a_table(), kinds={"echo"})


@pytest.mark.contract("Q-34")
@pytest.mark.parametrize("kind", ["openai_responses", "openai_chat"])
def test_the_kinds_of_the_contract_are_known(kind: str) -> None:
    assert load_table(a_table(default=a_route(adapter_kind=kind))).default.adapter_kind == kind


@pytest.mark.contract("Q-71")
@pytest.mark.parametrize(
    ("provider", "kind"),
    [
        ("openai", "gemini_generate"),
        ("google", "openai_chat"),
        ("openai", "anthropic_messages"),
        ("other", "openai_chat"),
    ],
)
def test_an_adapter_that_leads_to_somebody_else_is_refused(provider: str, kind: str) -> None:
    message = refused(a_table(default=a_route(provider=provider, adapter_kind=kind)))
    assert "provider does not agree with adapter_kind" in message


def test_an_unknown_prompt_version_is_refused_before_anything_starts() -> None:
    message = refused(a_table(default=a_route(prompt_version="v999")))
    assert "the default of the routing table: prompt_version is unknown; there is v1" in message


@pytest.mark.parametrize(
    "url",
    ["https://user:secret@api.openai.com/v1", "https://api.openai.com/v1?key=secret", "https:///v1", "https://[::1/v1"],
)
def test_an_address_with_a_secret_in_it_is_refused_and_not_repeated(url: str) -> None:
    message = refused(a_table(default=a_route(base_url=url)))
    assert "base_url" in message
    assert "secret" not in message


def test_a_member_that_stands_twice_is_refused() -> None:
    text = json.dumps({"default": ROUTE})[:-1] + ', "default": ' + json.dumps(a_route(model="other")) + "}"
    assert "'default' twice" in refused(text)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"default": ROUTE, "rules": {}}, '"rules" of the routing table must be a list'),
        ({"default": ROUTE, "rules": ["x"]}, "rule 1 of the routing table must be a JSON object"),
        ({"default": ROUTE, "rules": [{"when": {}}]}, "rule 1 of the routing table has no route"),
        ({"default": ROUTE, "rules": [{"name": 7, "route": ROUTE}]}, "name must be a few words"),
        ({"default": "openai"}, "the default of the routing table must be a JSON object"),
    ],
)
def test_the_shape_of_a_table_is_checked(table: dict[str, Any], said: str) -> None:
    assert said in refused(json.dumps(table))
