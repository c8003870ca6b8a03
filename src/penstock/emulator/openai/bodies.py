"""Answers in OpenAI's two shapes: a response and a chat completion."""

from __future__ import annotations

from typing import Any, Final

from penstock.emulator.faults import Rule
from penstock.emulator.flaws import limited
from penstock.emulator.openai.asking import CHAT
from penstock.emulator.questions import Question, tokens

REFUSAL: Final = "I'm sorry, but I can't assist with that."


def answer_body(
    endpoint: str, answer_id: str, at: float, question: Question, text: str, rule: Rule | None
) -> dict[str, Any]:
    """The body of a reply with status 200."""
    kind, text = limited(question, text, rule)
    shape = _chat if endpoint == CHAT else _response
    return shape(answer_id, int(at), question, text, kind, rule)


def _response(answer_id: str, at: int, question: Question, text: str, kind: str, rule: Rule | None) -> dict[str, Any]:
    reasons = {"incomplete": "max_output_tokens", "content_filter": "content_filter"}
    status = "incomplete" if kind in reasons else "failed" if kind == "failed" else "completed"
    error = (
        {"code": rule.get("code", "server_error"), "message": "The model failed."}
        if kind == "failed" and rule
        else None
    )
    return {
        "id": f"resp_{answer_id}",
        "object": "response",
        "created_at": at,
        "completed_at": at if status == "completed" else None,
        "status": status,
        "access_programs": None,
        "background": False,
        "error": error,
        "incomplete_details": {"reason": reasons[kind]} if kind in reasons else None,
        "instructions": question.instructions or None,
        "max_output_tokens": question.max_output_tokens,
        "model": question.model,
        "output": [] if kind in {"failed", "content_filter"} else [_message(answer_id, text, kind)],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None if kind == "failed" else _usage(question, text),
        "user": None,
        **question.echo,
    }


def _message(answer_id: str, text: str, kind: str) -> dict[str, Any]:
    refusal = {"type": "refusal", "refusal": REFUSAL}
    said = refusal if kind == "refusal" else {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    status = "incomplete" if kind == "incomplete" else "completed"
    return {"id": f"msg_{answer_id}", "type": "message", "status": status, "role": "assistant", "content": [said]}


def _usage(question: Question, text: str) -> dict[str, Any]:
    return {
        "input_tokens": question.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": tokens(text),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": question.input_tokens + tokens(text),
    }


def _chat(answer_id: str, at: int, question: Question, text: str, kind: str, _rule: Rule | None) -> dict[str, Any]:
    finish = {"incomplete": "length", "content_filter": "content_filter"}.get(kind, "stop")
    content = None if kind in {"refusal", "content_filter", "failed"} else text
    refusal = REFUSAL if kind == "refusal" else None
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": refusal, "annotations": []}
    return {
        "id": f"chatcmpl-{answer_id}",
        "object": "chat.completion",
        "created": at,
        "model": question.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": question.input_tokens,
            "completion_tokens": tokens(text),
            "total_tokens": question.input_tokens + tokens(text),
        },
        "service_tier": "default",
        "system_fingerprint": None,
    }
