"""Every kind of fault there is, and the settings it takes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Family(StrEnum):
    """Where a fault strikes."""

    WIRE = "wire"  # one HTTP request
    BATCH = "batch"  # a batch as a whole, decided when it is created
    ITEM = "item"  # single items of a batch
    ANSWER = "answer"  # items of a batch, and single calls


class Kind(NamedTuple):
    """A fault's family, its own settings, and what it does."""

    family: Family
    settings: frozenset[str]
    meaning: str


def _kind(family: Family, settings: str, meaning: str) -> Kind:
    return Kind(family, frozenset(settings.split()), meaning)


_REPLY: Final = "status code message headers body json retry_after act"

KINDS: Final[Mapping[str, Kind]] = {
    "delay": _kind(Family.WIRE, "seconds", "wait before acting"),
    "drop": _kind(Family.WIRE, "early reset", "close the connection instead of acting"),
    "drop_after": _kind(Family.WIRE, "reset", "act, then close the connection: the reply is lost"),
    "truncate": _kind(
        Family.WIRE, "after framing", "close in the middle of the body; framing length, chunked or close"
    ),
    "status": _kind(Family.WIRE, _REPLY, "answer with this status instead of acting (act: after acting)"),
    "rate_limited": _kind(Family.WIRE, _REPLY, "429 with Retry-After"),
    "quota": _kind(Family.WIRE, _REPLY, "429, out of credit"),
    "server_error": _kind(Family.WIRE, _REPLY, "500"),
    "bad_gateway": _kind(Family.WIRE, _REPLY, "502 with an HTML page"),
    "unavailable": _kind(Family.WIRE, _REPLY, "503"),
    "gateway_timeout": _kind(Family.WIRE, _REPLY, "504"),
    "overloaded": _kind(Family.WIRE, _REPLY, "529 (Gemini: 503)"),
    "unauthorized": _kind(Family.WIRE, _REPLY, "401 (Gemini: 400 API_KEY_INVALID)"),
    "forbidden": _kind(Family.WIRE, _REPLY, "403"),
    "conflict": _kind(Family.WIRE, _REPLY, "409"),
    "html": _kind(Family.WIRE, _REPLY, "200 with an HTML page"),
    "broken_json": _kind(Family.WIRE, _REPLY, "200 with half a JSON object"),
    "empty_body": _kind(Family.WIRE, _REPLY, "200 with nothing in it"),
    "finish_after": _kind(Family.BATCH, "seconds", "takes this long"),
    "list_delay": _kind(Family.BATCH, "seconds", "appears in lists only after so many seconds"),
    "not_found": _kind(Family.BATCH, "polls", "the first polls answer 404"),
    "vanish": _kind(Family.BATCH, "after", "is gone after so many seconds"),
    "stuck": _kind(Family.BATCH, "state", "never leaves validating, in_progress, finalizing or cancelling"),
    "fail": _kind(Family.BATCH, "line code message param", "fails as a whole, naming a line"),
    "token_limit": _kind(Family.BATCH, "message", "fails with token_limit_exceeded, naming no line"),
    "expire": _kind(Family.BATCH, "after done listed", "expires with the first *done* items finished"),
    "cancelled": _kind(Family.BATCH, "after done listed", "is cancelled by nobody, the first *done* items finished"),
    "cancel_keeps": _kind(Family.BATCH, "done listed", "what a cancel by the client leaves finished"),
    "counts": _kind(Family.BATCH, "total completed failed", "the counts say something else"),
    "all_errors": _kind(Family.BATCH, "status code message", "every item failed: no output file at all"),
    "no_output": _kind(Family.BATCH, "", "completed, and neither file is there"),
    "empty_error_file_id": _kind(Family.BATCH, "", 'error_file_id is ""'),
    "empty_output_file_id": _kind(Family.BATCH, "", 'output_file_id is ""'),
    "foreign": _kind(Family.BATCH, "count custom_ids", "results that nobody asked for"),
    "shuffle": _kind(Family.BATCH, "", "results in another order"),
    "partially_succeeded": _kind(Family.BATCH, "", "JOB_STATE_PARTIALLY_SUCCEEDED at the end (Gemini)"),
    "state": _kind(Family.BATCH, "word", "ends in a state of this name, which no SDK knows"),
    "missing": _kind(Family.ITEM, "", "is in no file"),
    "duplicate": _kind(Family.ITEM, "differs", "is there twice, the second time another answer if differs"),
    "status_zero": _kind(Family.ITEM, "", "status_code 0, empty body, no error, in the error file"),
    "item_error": _kind(Family.ITEM, "status code message", "was refused with this status"),
    "item_expired": _kind(Family.ITEM, "", "ran out of time although the batch did not"),
    "item_canceled": _kind(Family.ITEM, "", "was cancelled although the batch was not"),
    "broken_line": _kind(Family.ITEM, "", "half a line that is no JSON"),
    "refusal": _kind(Family.ANSWER, "", "the model refuses"),
    "incomplete": _kind(Family.ANSWER, "", "the model ran out of output tokens"),
    "content_filter": _kind(Family.ANSWER, "", "the provider's filter blocked it"),
    "failed": _kind(Family.ANSWER, "code", "status 200, and the answer says it failed"),
    "wrong_schema": _kind(Family.ANSWER, "", "JSON that does not fit the schema"),
    "wrong_language": _kind(Family.ANSWER, "sentence", "the text is in another language"),
    "huge": _kind(Family.ANSWER, "bytes", "the text is this long"),
    "nul": _kind(Family.ANSWER, "", "the text has a NUL character in it"),
    "not_json": _kind(Family.ANSWER, "", "prose where JSON was asked for"),
    "empty_answer": _kind(Family.ANSWER, "", "an empty string"),
}
