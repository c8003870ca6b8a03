"""Tables and inputs of routing tests."""

from __future__ import annotations

import json
from typing import Any

from penstock.apps.rewrite.router import RoutingInput

ROUTE: dict[str, Any] = {
    "provider": "openai",
    "adapter_kind": "openai_responses",
    "base_url": None,
    "model": "gpt-5.2",
    "prompt_version": "v1",
    "policy_version": "v1",
    "execution_mode": "batch",
    "cache_eligible": True,
    "max_retries": 2,
}
GEMINI = {"provider": "google", "adapter_kind": "gemini_generate", "model": "gemini-3-flash"}


def a_route(**members: Any) -> dict[str, Any]:
    return {**ROUTE, **members}


def a_table(*rules: dict[str, Any], default: Any = ROUTE) -> str:
    return json.dumps({"rules": list(rules), "default": default})


def given(source: str = "en", target: str = "es", **members: Any) -> RoutingInput:
    lane = "same_language" if source == target else "cross_language"
    usual = {"surface": "direct_message", "lane": lane, "rewrite_strength": "light_touch"}
    return RoutingInput.model_validate({**usual, "source_locale": source, "target_locale": target, **members})
