"""The results of OpenAI's batches: the scenarios that a collector must survive."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass as F
from penstock.providers.port import BatchState, ItemResult, Phase
from tests.providers.clock import NOW, STAMP
from tests.providers.kinds import openai_error, responses
from tests.providers.support import BATCH, GOOD, Reply, Script, Stream, answer, jsonl
from tests.providers.test_openai_batches import adapter, each_endpoint

TOKEN = BATCH.hex


def line(number: int = 0, *, status: int = 200, body: object = None, error: object = None) -> dict[str, Any]:
    response = {"status_code": status, "request_id": "req_1", "body": responses() if body is None else body}
    return {"id": f"batch_req_{number}", "custom_id": f"{TOKEN}-{number}-7", "response": response, "error": error}


def files(**contents: bytes) -> dict[str, Reply | list[Reply]]:
    replies: dict[str, Reply | list[Reply]] = {}
    for name, content in contents.items():
        replies[f"GET /v1/files/{name}"] = answer({"id": name, "bytes": len(content)})
        replies[f"GET /v1/files/{name}/content"] = httpx2.Response(200, content=content)
    return replies


async def collected(
    script: Script, kind: str = "openai_responses", *, output: str | None = "out", error: str | None = None
) -> list[ItemResult]:
    """What was given out before the end, or before it raised."""
    state = BatchState("batch_1", Phase.COMPLETED, "completed", output_file_id=output, error_file_id=error)
    return [item async for item in adapter(script, kind).results(state)]


@each_endpoint
@pytest.mark.contract("A-98", "A-96")
async def test_each_line_is_read_by_itself_with_its_own_time(kind: Any) -> None:
    good = kind.good(GOOD)
    later = {**good, "created_at": STAMP + 5, "created": STAMP + 5}
    output = jsonl(line(1, body=later), line(0, body=good))
    errors = jsonl(line(2, status=400, body=openai_error("context_length_exceeded", 400)))
    items = await collected(Script(files(out=output, err=errors)), kind.name, error="err")

    assert [item.custom_id for item in items] == [f"{TOKEN}-{number}-7" for number in (1, 0, 2)]
    assert [item.at for item in items] == [NOW + timedelta(seconds=5), NOW, None]
    assert [item.answer.data if item.answer else None for item in items] == [{"text": "bonjour"}] * 2 + [None]
    assert items[2].failure is not None
    assert items[2].failure.error_class is F.SCHEMA_INVALID


LINES: list[tuple[str, dict[str, Any], F]] = [
    ("status 0", line(status=0, body={}), F.UPSTREAM_5XX),
    (
        "expired",
        {"custom_id": "c", "response": None, "error": {"code": "batch_expired", "message": "x"}},
        F.BATCH_EXPIRED,
    ),
    ("cancelled", {"custom_id": "c", "response": None, "error": {"code": "batch_cancelled"}}, F.BATCH_EXPIRED),
    ("server", {"custom_id": "c", "response": None, "error": {"code": "server_error", "message": "x"}}, F.UPSTREAM_5XX),
    ("unknown code", {"custom_id": "c", "response": None, "error": {"code": "never_seen"}}, F.UPSTREAM_5XX),
    ("nothing", {"custom_id": "c", "response": None, "error": None}, F.UPSTREAM_5XX),
    ("500", line(status=500, body=openai_error("", 500)), F.UPSTREAM_5XX),
    ("429", line(status=429, body=openai_error("rate_limit_exceeded", 429)), F.RATE_LIMITED),
    ("quota", line(status=429, body=openai_error("insufficient_quota", 429)), F.QUOTA_EXHAUSTED),
    ("400", line(status=400, body=openai_error("", 400)), F.SCHEMA_INVALID),
    ("no body", line(body={}), F.UPSTREAM_5XX),
    ("refusal", line(body=responses(output=[{"content": [{"type": "refusal", "refusal": "x"}]}])), F.POLICY_REJECTED),
    (
        "cut",
        line(body=responses(status="incomplete", incomplete_details={"reason": "max_output_tokens"})),
        F.SCHEMA_INVALID,
    ),
    ("NUL", line(body=responses("a\x00b")), F.SCHEMA_INVALID),
    ("surrogate", line(body=responses("\ud800")), F.SCHEMA_INVALID),
]


@pytest.mark.parametrize(("said", "expected"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
@pytest.mark.contract("C-37", "A-96")
async def test_a_line_without_an_answer_fails_alone(said: dict[str, Any], expected: F) -> None:
    items = await collected(Script(files(out=jsonl(said, line(5)))))
    assert [item.failure.error_class if item.failure else None for item in items] == [expected, None]
    assert items[0].answer is None


async def test_two_lines_of_one_item_are_told_apart_by_what_they_say() -> None:
    same = {**line(0), "id": "batch_req_9"}
    other = line(0, body=responses('{"text": "salut"}'))
    items = await collected(Script(files(out=jsonl(line(0), same, other))))
    assert items[0].digest == items[1].digest != items[2].digest


WHOLE = jsonl(line(0), line(1), line(2))


BOUNDARY = len(jsonl(line(0)))  # where nothing but the size can tell


@pytest.mark.parametrize(
    ("cut", "sized"),
    [(cut, sized) for cut in (1, 40, BOUNDARY + 9, len(WHOLE) - 2) for sized in (True, False)] + [(BOUNDARY, True)],
)
async def test_a_download_that_broke_off_gives_out_nothing(cut: int, sized: bool) -> None:
    script = Script(files(out=WHOLE[:cut], err=jsonl(line(9))))
    script.replies["GET /v1/files/out"] = answer({"id": "out", "bytes": len(WHOLE)} if sized else {"id": "out"})
    if not sized:
        script.replies["GET /v1/files/out/content"] = lambda _: httpx2.Response(200, content=Stream(WHOLE[:cut]))
    state = BatchState("batch_1", Phase.COMPLETED, "completed", output_file_id="err", error_file_id="out")
    with pytest.raises(Failed) as raised:
        await anext(aiter(adapter(script).results(state)))
    assert raised.value.error_class is F.NETWORK_RESET


@pytest.mark.parametrize(
    "reply",
    [
        httpx2.Response(200, content=Stream(WHOLE[:90]), headers={"content-length": str(len(WHOLE))}),
        httpx2.Response(200, content=Stream(WHOLE[:90], httpx2.RemoteProtocolError("x"))),
        httpx2.Response(200, content=Stream(WHOLE[:90], httpx2.ReadError("x"))),
    ],
    ids=["short of its length", "cut", "reset"],
)
async def test_a_body_that_ends_too_soon_is_a_reset(reply: httpx2.Response) -> None:
    script = Script(files(out=WHOLE))
    script.replies["GET /v1/files/out"] = answer({"id": "out"})
    script.replies["GET /v1/files/out/content"] = lambda request: reply
    with pytest.raises(Failed) as raised:
        await collected(script)
    assert raised.value.error_class is F.NETWORK_RESET


async def test_a_file_that_is_gone_is_not_found() -> None:
    script = Script({"*": answer(openai_error("", 404), 404)})
    with pytest.raises(Failed) as raised:
        await collected(script)
    assert raised.value.error_class is F.NOT_FOUND


async def test_foreign_lines_go_on_for_the_collector_to_drop() -> None:
    stray = [{"custom_id": "x" * 500}, {"hello": 1}, {"custom_id": 7, "response": {"status_code": "200"}}]
    items = await collected(Script(files(out=jsonl(*stray))))
    assert [item.custom_id for item in items] == ["", "", ""]
    assert all(item.failure for item in items)
