"""Requests and answers of tests that need no database."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.apps.rewrite.evaluation import Evaluation, evaluate_rewrite
from penstock.apps.rewrite.models import (
    Confidence,
    PreferencesV1,
    RewriteRequestV1,
    RewriteResponseV1,
    RoutingDecisionV1,
)

DECISION = RoutingDecisionV1(
    provider="openai",
    adapter_kind="openai_responses",
    model="gpt-5.2",
    prompt_version="v1",
    policy_version="v1",
    execution_mode="batch",
)


def a_request(
    message: str = "You never do the dishes!",
    *,
    source: str = "en",
    target: str = "es",
    strength: str = "full_reframe",
    tone: str | None = None,
    terms: tuple[str, ...] = (),
    **members: Any,
) -> RewriteRequestV1:
    return RewriteRequestV1.model_validate(
        {
            "message_text": message,
            "surface": "direct_message",
            "rewrite_strength": strength,
            "source_locale": source,
            "target_locale": target,
            "lane": "same_language" if source == target else "cross_language",
            "preferences": PreferencesV1(tone=tone, blocked_terms=terms),
            **members,
        }
    )


def a_response(text: str, target: str = "es", **members: Any) -> RewriteResponseV1:
    usual = {"rewrite_strength": "full_reframe", "prompt_version": "v1", "policy_version": "v1"}
    return RewriteResponseV1.model_validate({"rewritten_text": text, "output_locale": target, **usual, **members})


REWRITES: dict[str, dict[str, list[str]]] = tomllib.loads((Path(__file__).parent / "rewrites.toml").read_text("utf-8"))
LANGUAGES = tuple(REWRITES)


def of_kind(kind: str) -> list[tuple[str, str]]:
    """Every text of a kind, with its language."""
    return [(language, text) for language, kinds in REWRITES.items() for text in kinds[kind]]


@dataclass(frozen=True)
class Found:
    """What a detector said."""

    language: str | None
    confidence: Confidence


def finds(language: str | None, confidence: str = "high") -> Callable[[str], Found]:
    """A detector that always says the same."""
    return lambda _text: Found(language, Confidence(confidence))


def verdict_on(text: str, target: str = "en", *, terms: tuple[str, ...] = (), detect: Any = None) -> Evaluation:
    """The evaluation of *text* for a recipient who reads *target*."""
    request = a_request(source="de" if target == "en" else "en", target=target, terms=terms)
    return evaluate_rewrite(a_response(text, target), request, detect=detect)


def words_of(text: str, target: str = "en", terms: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What is found in *text* when its language is taken for granted."""
    return verdict_on(text, target, terms=terms, detect=finds(target)).detail
