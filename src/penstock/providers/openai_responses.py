"""The adapter `openai_responses`: OpenAI's Responses API, one call at a time or in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.contract.calls import Answer
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.providers.answers import checked_text, items, mapping, moment, usage_of, word
from penstock.providers.failing import Unreadable, failed_with, unanswered
from penstock.providers.openai_api import OpenAIAdapter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.contract.calls import Request, Usage

_INCOMPLETE: Final[Mapping[str, FailureClass]] = {"content_filter": FailureClass.POLICY_REJECTED}


class OpenAIResponses(OpenAIAdapter):
    """Responses."""

    kind: str = "openai_responses"
    endpoint: str = "/responses"

    def body(self, request: Request) -> dict[str, Any]:
        """One request; the provider is asked not to keep it."""
        body: dict[str, Any] = {
            "model": request.route.model,
            "input": request.text,
            "max_output_tokens": request.max_output_tokens,
            "store": False,
        }
        if request.instructions:
            body["instructions"] = request.instructions
        if request.schema is not None:
            shape = {"type": "json_schema", "name": request.schema_name, "schema": dict(request.schema), "strict": True}
            body["text"] = {"format": shape}
        return body

    def usage(self, body: Mapping[str, Any]) -> Usage:
        """As the endpoint counts."""
        return usage_of(body.get("usage"), "input_tokens", "output_tokens")

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """The text of a completed response; anything else behind a 200 is a failure of its own class."""
        _refuse_unfinished(body)
        content = [part for entry in items(body.get("output")) for part in items(entry.get("content"))]
        if any(part.get("type") == "refusal" for part in content):
            raise Failed(FailureClass.POLICY_REJECTED)
        texts = [part.get("text") for part in content if part.get("type") == "output_text"]
        if not texts:
            raise Unreadable
        return Answer(
            text=checked_text("".join(checked_text(text) for text in texts)),
            usage=self.usage(body),
            model=word(body.get("model")),
            provider_id=word(body.get("id")),
            at=moment(body.get("created_at")),
        )


def _refuse_unfinished(body: Mapping[str, Any]) -> None:
    status = body.get("status")
    if status == "failed":
        raise failed_with(unanswered(mapping(body.get("error"))))
    if status == "incomplete":
        reason = str(mapping(body.get("incomplete_details")).get("reason"))
        raise Failed(_INCOMPLETE.get(reason, FailureClass.SCHEMA_INVALID))
    if status != "completed":
        raise Unreadable
