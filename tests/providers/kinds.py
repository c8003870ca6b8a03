"""The four adapters side by side: where each is asked, and what its provider says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.providers.clock import STAMP
from tests.providers.support import GOOD


@dataclass(frozen=True)
class Kind:
    name: str
    path: str  # of a single call
    good: Callable[[str], dict[str, Any]]
    error: Callable[[str, int], dict[str, Any]]  # the body of an error with this code and status

    def __str__(self) -> str:
        return self.name


def responses(text: str = GOOD, **changes: Any) -> dict[str, Any]:
    body = {
        "id": "resp_1",
        "object": "response",
        "created_at": STAMP,
        "model": "model-1-2026",
        "status": "completed",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": text, "annotations": []}]},
        ],
        "usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18},
    }
    return {**body, **changes}


def chat(text: str | None = GOOD, *, finish: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return {
        "id": "chatcmpl_1",
        "created": STAMP,
        "model": "model-1-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def gemini(text: str = GOOD, *, finish: str = "STOP") -> dict[str, Any]:
    thought, said = {"text": "hm", "thought": True}, {"text": text}
    return {
        "candidates": [{"content": {"role": "model", "parts": [thought, said]}, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 5, "thoughtsTokenCount": 2},
        "modelVersion": "model-1-2026",
        "responseId": "gem_1",
    }


def anthropic(text: str = GOOD, *, stop: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "model-1-2026",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}],
        "stop_reason": stop,
        "usage": {"input_tokens": 6, "cache_read_input_tokens": 5, "output_tokens": 7},
    }


def openai_error(code: str, status: int) -> dict[str, Any]:
    return {"error": {"message": "canary-message", "type": "some_error", "param": None, "code": code or None}}


def gemini_error(code: str, status: int) -> dict[str, Any]:
    return {"error": {"code": status, "message": "canary-message", "status": code.upper()}}


def anthropic_error(code: str, status: int) -> dict[str, Any]:
    return {"type": "error", "error": {"type": code, "message": "canary-message"}, "request_id": "req_1"}


RESPONSES = Kind("openai_responses", "POST /v1/responses", responses, openai_error)
CHAT = Kind("openai_chat", "POST /v1/chat/completions", chat, openai_error)
GEMINI = Kind("gemini_generate", "POST /v1/models/model-1:generateContent", gemini, gemini_error)
ANTHROPIC = Kind("anthropic_messages", "POST /v1/messages", anthropic, anthropic_error)
KINDS = (RESPONSES, CHAT, GEMINI, ANTHROPIC)

each_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
