"""What Gemini is asked and what it says, in its own JSON: the same for a single call and for a line of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.contract.calls import Answer
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.providers import lines
from penstock.providers.answers import checked_text, item_of, items, mapping, moment, usage_of, word
from penstock.providers.failing import Unreadable, failure, failure_of, unanswered
from penstock.providers.port import ItemResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.contract.calls import Request, Usage
    from penstock.contract.classify import Failure

_FINISHES: Final[Mapping[str, FailureClass]] = {
    "MAX_TOKENS": FailureClass.SCHEMA_INVALID,
    "LANGUAGE": FailureClass.SCHEMA_INVALID,
    "SAFETY": FailureClass.POLICY_REJECTED,
    "RECITATION": FailureClass.POLICY_REJECTED,
    "BLOCKLIST": FailureClass.POLICY_REJECTED,
    "PROHIBITED_CONTENT": FailureClass.POLICY_REJECTED,
    "SPII": FailureClass.POLICY_REJECTED,
}
_FINISHED: Final = frozenset({"STOP", ""})
# The numbers of google.rpc.Code, which a line of a batch has in place of an HTTP status.
_RPC_CODES: Final = (
    "ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
    "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented",
    "internal", "unavailable", "data_loss", "unauthenticated",
)  # fmt: skip
_HTTP: Final = range(300, 600)


def body_for(request: Request) -> dict[str, Any]:
    """One request of one user."""
    config: dict[str, Any] = {"maxOutputTokens": request.max_output_tokens}
    if request.schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": dict(request.schema)}
    body: dict[str, Any] = {
        "contents": [{"role": "user", "parts": [{"text": request.text}]}],
        "generationConfig": config,
    }
    if request.instructions:
        body["systemInstruction"] = {"parts": [{"text": request.instructions}]}
    return body


def answer_of(body: Mapping[str, Any]) -> Answer:
    """The text of the first candidate; a blocked prompt has none, and is a 200 all the same."""
    if mapping(body.get("promptFeedback")).get("blockReason"):
        raise Failed(FailureClass.POLICY_REJECTED)
    candidates = items(body.get("candidates"))
    if not candidates:
        raise Unreadable
    finish = str(candidates[0].get("finishReason") or "")
    if finish not in _FINISHED:
        raise Failed(_FINISHES.get(finish, FailureClass.UPSTREAM_5XX))
    parts = items(mapping(candidates[0].get("content")).get("parts"))
    texts = [part.get("text") for part in parts if "text" in part and not part.get("thought")]
    if not texts:
        raise Unreadable
    return Answer(
        text=checked_text("".join(checked_text(text) for text in texts)),
        usage=usage(body),
        model=word(body.get("modelVersion")),
        provider_id=word(body.get("responseId")),
        at=moment(body.get("createTime")),
    )


def usage(body: Mapping[str, Any]) -> Usage:
    """What was used: thoughts are written, too."""
    names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    return usage_of(body.get("usageMetadata"), *names)


def item(line: Mapping[str, Any]) -> ItemResult:
    """One line of a batch's results."""
    key, body, error = word(line.get("key")), mapping(line.get("response")), mapping(line.get("error"))
    mark = lines.digest(body, error)
    if error or not body:
        return ItemResult(key, failure=_failure(error), digest=mark)
    return item_of(key, lambda: answer_of(body), usage=usage(body), at=moment(body.get("createTime")), digest=mark)


def _failure(error: Mapping[str, Any]) -> Failure:
    code = error.get("code")
    if isinstance(code, int) and code in _HTTP:
        return failure_of(code, {name: value for name, value in error.items() if name != "code"})
    known = _RPC_CODES[code] if isinstance(code, int) and 0 <= code < len(_RPC_CODES) else error.get("status")
    if known == "cancelled":
        return failure(FailureClass.BATCH_EXPIRED)
    return unanswered({**error, "code": known})
