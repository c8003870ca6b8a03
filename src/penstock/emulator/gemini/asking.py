"""Requests to Gemini: keys, questions, and answers in its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request

from penstock.emulator.desk import known_model, project_of
from penstock.emulator.faults import Rule
from penstock.emulator.flaws import limited
from penstock.emulator.questions import Question, joined, tokens
from penstock.emulator.replies import Refused
from penstock.emulator.world import World

BLOCKED: Final = "PROHIBITED_CONTENT"


def allowed(world: World, request: Request) -> str:
    """The project of the key; without a key 403, with a wrong one 400, as Google has it."""
    key = request.headers.get("x-goog-api-key") or request.query_params.get("key", "")
    project = project_of(world, key)
    if project is None and key:
        raise Refused(400, "API_KEY_INVALID", "API key not valid. Please pass a valid API key.")
    if project is None:
        raise Refused(403, None, "Method doesn't allow unregistered callers.")
    return project


def either(body: Mapping[str, Any], name: str) -> Any:
    """A field under its camelCase or its snake_case name: both are accepted."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return body.get(name, body.get(snake))


def question_of(world: World, model: str, body: Mapping[str, Any], custom_id: str | None = None) -> Question:
    """What *body* asks; refused with 400 or 404 where Google would."""
    known_model(world, model)
    contents = body.get("contents")
    if not contents:
        raise Refused(400, None, "* GenerateContentRequest.contents: contents is not specified")
    config = either(body, "generationConfig") or {}
    schema = either(config, "responseJsonSchema") or either(config, "responseSchema")
    if schema and either(config, "responseMimeType") != "application/json":
        message = "response_schema is only allowed with response_mime_type 'application/json'"
        raise Refused(400, None, message)
    instructions = joined(either(body, "systemInstruction"))
    limit = either(config, "maxOutputTokens")
    return Question("gemini", model, instructions, joined(contents), schema or None, limit, custom_id)


def answer_body(answer_id: str, question: Question, text: str, rule: Rule | None) -> dict[str, Any]:
    """The body of a reply with status 200; a blocked prompt has no candidates at all."""
    kind, text = limited(question, text, rule)
    used = 0 if kind == "content_filter" else tokens(text)
    made: dict[str, Any] = {
        "usageMetadata": {
            "promptTokenCount": question.input_tokens,
            "candidatesTokenCount": used,
            "totalTokenCount": question.input_tokens + used,
        },
        "modelVersion": question.model,
        "responseId": answer_id,
    }
    if kind == "content_filter":
        return {"promptFeedback": {"blockReason": BLOCKED}, **made}
    return {"candidates": [_candidate(text, kind)], **made}


def _candidate(text: str, kind: str) -> dict[str, Any]:
    finish = {"refusal": "SAFETY", "incomplete": "MAX_TOKENS", "failed": "OTHER"}.get(kind, "STOP")
    said = {} if kind in {"refusal", "failed"} else {"content": {"parts": [{"text": text}], "role": "model"}}
    return {**said, "finishReason": finish, "index": 0}
