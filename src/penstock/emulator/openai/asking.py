"""Requests to OpenAI's models: checked as the service checks them, and read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.emulator.desk import known_model
from penstock.emulator.questions import Question, joined
from penstock.emulator.replies import Refused
from penstock.emulator.schemas import strict_problem
from penstock.emulator.world import World

RESPONSES: Final = "/v1/responses"
CHAT: Final = "/v1/chat/completions"
ENDPOINTS: Final = (RESPONSES, CHAT)
LEAST_TOKENS: Final = 16


def question_of(world: World, endpoint: str, body: Mapping[str, Any], custom_id: str | None = None) -> Question:
    """What *body* asks; refused with 400 or 404 where the service would."""
    model = known_model(world, body.get("model"))
    if body.get("stream"):
        raise Refused(400, "unsupported_value", "The emulator does not stream.", "stream")
    read = _responses if endpoint == RESPONSES else _chat
    instructions, text, answer_format, limit = read(body)
    echo = _echo(body) if endpoint == RESPONSES else {}
    return Question("openai", model, instructions, text, _schema(answer_format), limit, custom_id, echo)


def _echo(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a response repeats of its request, the defaults filled in."""
    return {
        "metadata": body.get("metadata") or {},
        "store": body.get("store") is not False,
        "text": {"format": {"type": "text"}, **(body.get("text") or {})},
    }


def _responses(body: Mapping[str, Any]) -> tuple[str, str, Any, int | None]:
    if body.get("input") in {None, ""} if isinstance(body.get("input"), str | None) else not body["input"]:
        raise Refused(400, "missing_required_parameter", "Missing required parameter: 'input'.", "input")
    limit = body.get("max_output_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < LEAST_TOKENS):
        message = f"Expected a value >= {LEAST_TOKENS}, but got {limit!r} instead."
        raise Refused(400, "integer_below_min_value", message, "max_output_tokens")
    system, user = _by_role(body["input"])
    answer_format = (body.get("text") or {}).get("format")
    return "\n".join(filter(None, (body.get("instructions"), system))), user, answer_format, limit


def _chat(body: Mapping[str, Any]) -> tuple[str, str, Any, int | None]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "missing_required_parameter", "Missing required parameter: 'messages'.", "messages")
    system, user = _by_role(messages)
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    wanted = body.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        wanted = {"type": "json_schema", **(wanted.get("json_schema") or {})}
    return system, user, wanted, limit


def _by_role(messages: Any) -> tuple[str, str]:
    """What the system says and what the user says."""
    if isinstance(messages, str):
        return "", messages
    system = [joined(each) for each in messages if each.get("role") in {"system", "developer"}]
    user = [joined(each) for each in messages if each.get("role") not in {"system", "developer"}]
    return "\n".join(system), "\n".join(user)


def _schema(answer_format: Any) -> Mapping[str, Any] | None:
    if not isinstance(answer_format, Mapping) or answer_format.get("type") != "json_schema":
        return None
    schema = answer_format.get("schema")
    if not answer_format.get("name"):
        raise Refused(
            400, "missing_required_parameter", "Missing required parameter: 'text.format.name'.", "text.format.name"
        )
    problem = strict_problem(schema) if answer_format.get("strict") else None
    if problem or not isinstance(schema, Mapping):
        message = f"Invalid schema for response_format: {problem or 'no schema'}."
        raise Refused(400, "invalid_json_schema", message, "text.format.schema")
    return schema
