"""What ties this application to the versions of its contracts.

    new job types, new required members, other lane rules      MINOR, or MAJOR where somebody would break
    other rules of retrying                                    MAJOR
    another provider, model or adapter, other numbers          no new version

A digest is kept for each version, so that a change without a new version
fails a test. Where two contracts ask for different steps the larger one is
taken (C-58).
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from penstock.apps.rewrite.locales import lane_of
from penstock.apps.rewrite.models import (
    ClassifierResultV1,
    Lane,
    PreferencesV1,
    RewriteJobV1,
    RewriteRequestV1,
    RewriteResponseV1,
    RoutingDecisionV1,
    json_schema,
)
from penstock.contract.failures import FailureClass, is_retryable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from penstock.contract.policies import Policy

MODELS: Final = (
    RewriteJobV1, RewriteRequestV1, RewriteResponseV1, ClassifierResultV1, RoutingDecisionV1, PreferencesV1,
)  # fmt: skip
# Version of the execution contract → digest of its payloads.
PAYLOADS: Final[Mapping[str, str]] = {
    "v1.4": "4628364841f10fa23f25780579ac5c1596cf8a66a826b7752ab9acb71a324762",
}
# Version of the contract of the two lanes → digest of the lanes and of the same payloads (L-72).
LANE_RULES: Final[Mapping[str, str]] = {
    "v1.5": "1bb6eeecef6c1b9eab47e24335a2d7881f8c354639611cef0e59b3b4a93220d2",
}
# MAJOR version of both → digest of the rules of retrying (A-86, L-73).
RETRIES: Final[Mapping[int, str]] = {
    1: "3c1f50982c739406017c4c1ecebd4e192be85fb4342fa5c703b3481f9fa0ffba",
}


def payload_digest(models: Sequence[type[BaseModel]] = MODELS) -> str:
    """Of the names, the kinds and the necessity of every member."""
    return _digest({model.__name__: _members(json_schema(model)) for model in models})


def lane_digest(models: Sequence[type[BaseModel]] = MODELS) -> str:
    """Of the lanes, what makes each of them, and the payloads that carry them."""
    rules = {"equal": lane_of("en", "en"), "different": lane_of("en", "es"), "lanes": sorted(Lane)}
    return _digest({"rules": rules, "payloads": payload_digest(models)})


def retry_digest(policy: Policy) -> str:
    """Of what is retried and what counts as an attempt; the numbers of a profile are configuration (Q-89)."""
    flags = ("stale_counts_attempt", "unknown_retryable", "replayable", "idempotent")
    retried = [str(found) for found in FailureClass if is_retryable(found, idempotent=policy.idempotent)]
    rules = {name: getattr(policy, name) for name in flags}
    return _digest({"retried": sorted(retried), "backoff": type(policy.backoff).__name__, **rules})


def _members(schema: Mapping[str, Any]) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    return {
        name: [name in required, part.get("type") or sorted(key for key in part if key in ("anyOf", "$ref", "const"))]
        for name, part in schema["properties"].items()
    }


def _digest(shape: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()
