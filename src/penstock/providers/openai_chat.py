"""The adapter `openai_chat`: OpenAI's Chat Completions API, one call at a time or in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.contract.calls import Answer
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.providers.answers import checked_text, items, mapping, moment, usage_of, word
from penstock.providers.failing import Unreadable
from penstock.providers.openai_api import OpenAIAdapter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.contract.calls import Request, Usage

_UNFINISHED: Final[Mapping[str, FailureClass]] = {
    "length": FailureClass.SCHEMA_INVALID,
    "content_filter": FailureClass.POLICY_REJECTED,
    "tool_calls": FailureClass.SCHEMA_INVALID,  # none was offered
    "function_call": FailureClass.SCHEMA_INVALID,
}


class OpenAIChat(OpenAIAdapter):
    """Chat completions."""

    kind: str = "openai_chat"
    endpoint: str = "/chat/completions"

    def body(self, request: Request) -> dict[str, Any]:
        """One request: the instructions, then one user's text."""
        messages = [{"role": "user", "content": request.text}]
        if request.instructions:
            messages.insert(0, {"role": "system", "content": request.instructions})
        body: dict[str, Any] = {
            "model": request.route.model,
            "messages": messages,
            "max_completion_tokens": request.max_output_tokens,
        }
        if request.schema is not None:
            shape = {"name": request.schema_name, "schema": dict(request.schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        return body

    def usage(self, body: Mapping[str, Any]) -> Usage:
        """As the endpoint counts."""
        return usage_of(body.get("usage"), "prompt_tokens", "completion_tokens")

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """The text of the first choice; a refusal, a filter and a cut are failures behind a 200."""
        choices = items(body.get("choices"))
        if not choices:
            raise Unreadable
        message = mapping(choices[0].get("message"))
        if message.get("refusal"):
            raise Failed(FailureClass.POLICY_REJECTED)
        unfinished = _UNFINISHED.get(str(choices[0].get("finish_reason")))
        if unfinished is not None:
            raise Failed(unfinished)
        if message.get("content") is None:
            raise Unreadable
        return Answer(
            text=checked_text(message["content"]),
            usage=self.usage(body),
            model=word(body.get("model")),
            provider_id=word(body.get("id")),
            at=moment(body.get("created")),
        )
