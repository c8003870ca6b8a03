"""What may change under which version, and the means that the contract counts on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, create_model

from penstock.apps.rewrite import contracts
from penstock.apps.rewrite.models import RewriteJobV1
from penstock.apps.rewrite.policy import COLLECTOR, SUBMITTER, policy_of
from penstock.apps.rewrite.router import load_table
from penstock.contract.policies import Policy
from penstock.contract.registry import EXECUTION, LANES
from penstock.providers import registry
from penstock.settings import load_settings

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/explanation/rewrite.md").read_text()


def policy(**overrides: Any) -> Policy:
    return Policy("complaint_rewrite", **policy_of(load_settings(**overrides)))


@pytest.mark.contract("A-85", "L-72", "C-58")
def test_a_new_required_member_or_another_lane_needs_a_new_minor_version() -> None:
    assert contracts.PAYLOADS[str(EXECUTION.version)] == contracts.payload_digest()
    assert contracts.LANE_RULES[str(LANES.version)] == contracts.lane_digest()

    wider = create_model("RewriteJobV1", __base__=RewriteJobV1, urgency=(int, ...))
    models: list[type[BaseModel]] = [wider, *contracts.MODELS[1:]]
    assert contracts.payload_digest(models) != contracts.payload_digest()
    assert contracts.lane_digest(models) != contracts.lane_digest()


@pytest.mark.contract("A-86", "L-73")
def test_other_rules_of_retrying_need_a_new_major_version() -> None:
    usual = policy()
    assert EXECUTION.major == LANES.major == 1
    assert contracts.RETRIES[1] == contracts.retry_digest(usual)
    changed = [
        replace(usual, stale_counts_attempt=False),
        replace(usual, unknown_retryable=True),
        replace(usual, replayable=True),
    ]
    assert contracts.RETRIES[1] not in {contracts.retry_digest(each) for each in changed}
    assert contracts.retry_digest(policy(profile="prod", rewrite_attempts=3)) == contracts.RETRIES[1]


@pytest.mark.contract("A-87", "L-74")
def test_another_provider_or_model_needs_no_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = contracts.payload_digest(), contracts.lane_digest(), contracts.retry_digest(policy())
    kinds = {**registry.KINDS, "acme_chat": registry.KINDS["openai_chat"]}
    monkeypatch.setattr(registry, "KINDS", kinds)
    swapped = load_table(
        '{"default": {"provider": "google", "adapter_kind": "gemini_generate", "base_url": null, "model": '
        '"gemini-3-flash", "prompt_version": "v1", "policy_version": "v1", "execution_mode": "batch", '
        '"cache_eligible": false, "max_retries": 1}}'
    )
    assert swapped.default.provider == "google"
    assert (contracts.payload_digest(), contracts.lane_digest(), contracts.retry_digest(policy())) == before


@pytest.mark.contract("A-88")
def test_the_rule_for_stronger_isolation_is_written_down() -> None:
    (row,) = [line for line in PAGE.splitlines() if "stronger isolation or safety" in line]
    assert "MINOR, unless it breaks an implementation" in row


@pytest.mark.contract("A-89")
def test_each_of_the_four_means_against_leaks_has_its_test() -> None:
    table = PAGE.partition("## Four means against leaks")[2].partition("\n## ")[0]
    named = re.findall(r"`(test_\w+)`", table)
    assert len(named) == 4
    written = "\n".join(path.read_text() for path in (ROOT / "tests/apps/rewrite").rglob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in written] == []


@pytest.mark.contract("C-24", "C-13", "Q-93")
def test_the_policy_is_that_of_the_contract_with_the_numbers_of_the_profile() -> None:
    found = policy(profile="prod")
    assert (found.stages, found.attempts, found.dispatch, found.replayable) == (("rewrite",), 2, "scheduled", False)
    assert (found.lease.total_seconds(), found.max_runtime.total_seconds(), found.drain_cap) == (3600, 240, 200)
    assert (found.unknown_retryable, found.error_messages, found.audit) == (False, False, "full")
    assert (found.stale_counts_attempt, found.enqueue_role, found.keep_keys) == (True, "penstock_orchestrator", None)
    assert (SUBMITTER, COLLECTOR) == ("rewrite_batch_submitter", "rewrite_batch_collector")
