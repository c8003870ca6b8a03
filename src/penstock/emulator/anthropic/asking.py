"""Requests to Anthropic: keys, questions, and answers in its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from penstock.emulator.desk import known_model, project_of
from penstock.emulator.faults import Rule
from penstock.emulator.flaws import limited
from penstock.emulator.questions import Question, joined, tokens
from penstock.emulator.replies import Refused
from penstock.emulator.schemas import strict_problem
from penstock.emulator.world import World


def allowed(world: World, request: Request) -> str:
    """The project of the key, refused with 401 when there is none; the version header is asked for as well."""
    key = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
    project = project_of(world, key)
    if project is None:
        raise Refused(401, None, "invalid x-api-key" if key else "x-api-key header is required")
    if not request.headers.get("anthropic-version"):
        raise Refused(400, None, "anthropic-version: header is required")
    return project


def question_of(world: World, body: Mapping[str, Any], custom_id: str | None = None) -> Question:
    """What *body* asks; refused with 400 or 404 where the service would."""
    for name in ("model", "max_tokens", "messages"):
        if not body.get(name):
            raise Refused(400, None, f"{name}: Field required")
    model = known_model(world, body["model"])
    if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 1:
        raise Refused(400, None, "max_tokens: Input should be greater than or equal to 1")
    if body.get("stream"):
        raise Refused(400, None, "stream: the emulator does not stream")
    text = joined(body["messages"])
    return Question("anthropic", model, joined(body.get("system")), text, _schema(body), body["max_tokens"], custom_id)


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    wanted = (body.get("output_config") or {}).get("format")
    if not wanted:
        return None
    schema = wanted.get("schema")
    problem = strict_problem(schema, all_required=False)
    if wanted.get("type") != "json_schema" or problem:
        raise Refused(400, None, f"output_config.format.schema: {problem or 'type has to be json_schema'}")
    return dict(schema)


def answer_body(answer_id: str, question: Question, text: str, rule: Rule | None) -> dict[str, Any]:
    """A message."""
    kind, text = limited(question, text, rule)
    refused = kind in {"refusal", "content_filter"}
    stop = "refusal" if refused else "max_tokens" if kind == "incomplete" else "end_turn"
    return {
        "id": f"msg_{answer_id}",
        "type": "message",
        "role": "assistant",
        "model": question.model,
        "content": [] if refused or kind == "failed" else [{"type": "text", "text": text, "citations": None}],
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": None, "explanation": None} if refused else None,
        "container": None,
        "diagnostics": None,
        "usage": {
            "input_tokens": question.input_tokens,
            "output_tokens": tokens(text),
            "output_tokens_details": None,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
            "server_tool_use": None,
            "service_tier": "batch" if question.custom_id else "standard",
            "inference_geo": None,
            "speed": None,
        },
    }
