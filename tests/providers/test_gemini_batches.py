"""Gemini's files and batches: the life of a batch, and what its results say."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from penstock.contract.errors import Failed, NotPerformed
from penstock.contract.failures import FailureClass as F
from penstock.providers.clients import gemini_client
from penstock.providers.gemini_generate import GeminiGenerate
from penstock.providers.port import BatchState, ItemResult, Lookup, Phase, Uploaded
from tests.providers.clock import LATER, NOW
from tests.providers.kinds import gemini, gemini_error
from tests.providers.support import BATCH, KEY, Reply, Script, answer, jsonl, submission

TOKEN = BATCH.hex
START = "POST /upload/v1/files"
CHUNK = "POST /upload/session-1"
CREATE = "POST /v1/models/model-1:batchGenerateContent"
FILE = {"name": "files/in-1", "displayName": TOKEN, "state": "ACTIVE"}


def adapter(script: Script) -> GeminiGenerate:
    return GeminiGenerate(gemini_client(KEY, "https://generativelanguage.googleapis.com", script), pause=0)


def batch(state: str = "BATCH_STATE_RUNNING", **changes: Any) -> dict[str, Any]:
    metadata = {"displayName": TOKEN, "state": state, "createTime": "2026-11-15T12:00:00Z", **changes}
    return {"name": "batches/b-1", "metadata": metadata}


def uploads(file: dict[str, Any] | None = None, **headers: str) -> dict[str, Reply | list[Reply]]:
    url = "https://generativelanguage.googleapis.com/upload/session-1"
    status = {"x-goog-upload-status": "final", **headers}
    return {
        START: httpx2.Response(200, json={}, headers={"x-goog-upload-url": url}),
        CHUNK: httpx2.Response(200, json={"file": file or FILE}, headers=status),
    }


@pytest.mark.contract("A-40")
async def test_the_lines_go_up_as_a_file_with_the_token_as_its_name() -> None:
    script = Script(uploads())
    lines = [b'{"key":"a"}', b'{"key":"b"}']
    assert await adapter(script).upload(submission(*lines)) == Uploaded("files/in-1")

    start, chunk = script.requests
    assert json.loads(start.content)["file"]["display_name"] == TOKEN
    assert chunk.content == b'{"key":"a"}\n{"key":"b"}\n'
    assert KEY not in f"{start.url}{chunk.url}"


async def test_a_file_is_used_only_once_it_is_active() -> None:
    waiting = {**FILE, "state": "PROCESSING"}
    script = Script(uploads(waiting) | {"GET /v1/files/in-1": [answer(waiting), answer(waiting), answer(FILE)]})
    assert await adapter(script).upload(submission(b"{}")) == Uploaded("files/in-1")
    assert len(script.requests) == 5

    script = Script(uploads({**FILE, "state": "FAILED"}))
    with pytest.raises(Failed):
        await adapter(script).upload(submission(b"{}"))


@pytest.mark.parametrize("status", [200, 500, 503])
async def test_a_broken_upload_is_neither_slept_over_nor_sent_again(status: int) -> None:
    script = Script(uploads() | {CHUNK: answer(gemini_error("internal", status), status)})
    with pytest.raises(Failed):
        await adapter(script).upload(submission(b"{}"))
    assert len(script.requests) == 2


async def test_a_refused_upload_was_certainly_not_performed() -> None:
    script = Script({START: answer(gemini_error("permission_denied", 403), 403)})
    with pytest.raises(NotPerformed) as raised:
        await adapter(script).upload(submission(b"{}"))
    assert isinstance(raised.value.__cause__, Failed)
    assert raised.value.__cause__.error_class is F.AUTH_DENIED


@pytest.mark.contract("A-40")
async def test_the_batch_carries_the_token_as_its_display_name() -> None:
    script = Script({CREATE: answer(batch("BATCH_STATE_PENDING"))})
    created = await adapter(script).create(submission(), Uploaded("files/in-1"))

    assert script.last == {"batch": {"displayName": TOKEN, "inputConfig": {"fileName": "files/in-1"}}}
    assert (created.provider_batch_id, created.input_file_id) == ("batches/b-1", "files/in-1")
    assert (created.created_at, created.expires_at) == (NOW, NOW + timedelta(hours=48))


@pytest.mark.parametrize(
    ("reply", "certain"),
    [
        (answer(gemini_error("failed_precondition", 400), 400), True),
        (answer(gemini_error("resource_exhausted", 429), 429), True),
        (httpx2.ConnectError("x"), True),
        (httpx2.ReadTimeout("x"), False),
        (httpx2.ReadError("x"), False),
        (answer(gemini_error("unavailable", 503), 503), False),
        (httpx2.Response(200, text="<html>"), False),
        (answer({}), False),
    ],
)
@pytest.mark.contract("C-36")
async def test_a_create_says_whether_it_may_have_happened(reply: Reply, certain: bool) -> None:
    script = Script({CREATE: reply})
    with pytest.raises(NotPerformed if certain else Failed):
        await adapter(script).create(submission(), Uploaded("files/in-1"))
    assert len(script.requests) == 1


@pytest.mark.contract("C-36")
async def test_a_batch_is_found_by_its_display_name_on_every_page() -> None:
    other = {**batch(displayName="other"), "name": "batches/b-2"}
    twin = {**batch("BATCH_STATE_CANCELLED", createTime="2026-11-15T12:00:05Z"), "name": "batches/b-3"}
    pages: list[Reply] = [
        answer({"operations": [other, batch()], "nextPageToken": "p2"}),
        answer({"operations": [twin]}),
    ]
    found = await adapter(Script({"GET /v1/batches": pages})).find(BATCH, NOW, LATER)
    assert [(one.provider_batch_id, one.cancelled) for one in found] == [("batches/b-3", True), ("batches/b-1", False)]
    assert GeminiGenerate.lookup is Lookup.BY_TOKEN


async def test_an_empty_list_is_an_absence_and_a_refused_one_is_not() -> None:
    assert await adapter(Script({"*": answer({})})).find(BATCH, NOW, LATER) == []
    for reply in (answer({}, 500), answer({}, 403), httpx2.Response(200, text="<html>")):
        with pytest.raises(Failed):
            await adapter(Script({"*": reply})).find(BATCH, NOW, LATER)


@pytest.mark.parametrize(
    ("said", "phase"),
    [
        ("PENDING", Phase.RUNNING),
        ("RUNNING", Phase.RUNNING),
        ("CANCELLING", Phase.RUNNING),
        ("SUCCEEDED", Phase.COMPLETED),
        ("PARTIALLY_SUCCEEDED", Phase.COMPLETED),
        ("FAILED", Phase.FAILED),
        ("CANCELLED", Phase.CANCELLED),
        ("EXPIRED", Phase.EXPIRED),
    ],
)
@pytest.mark.parametrize("prefix", ["BATCH_STATE", "JOB_STATE"])
@pytest.mark.filterwarnings("ignore:.*is not a valid JobState")
async def test_every_state_comes_down_to_a_phase(said: str, phase: Phase, prefix: str) -> None:
    state = await adapter(Script({"*": answer(batch(f"{prefix}_{said}"))})).poll("batches/b-1")
    assert state.phase is phase


@pytest.mark.filterwarnings("ignore:.*is not a valid JobState")
async def test_a_state_nobody_knows_is_still_running() -> None:
    state = await adapter(Script({"*": answer(batch("JOB_STATE_DREAMING"))})).poll("batches/b-1")
    assert (state.phase, state.provider_status) == (Phase.RUNNING, "unknown")


async def test_a_batch_that_is_not_there_is_not_found() -> None:
    with pytest.raises(Failed) as raised:
        await adapter(Script({"*": answer(gemini_error("not_found", 404), 404)})).poll("batches/b-1")
    assert raised.value.error_class is F.NOT_FOUND


async def collected(content: bytes, size: Reply | None = None) -> list[ItemResult]:
    script = Script(
        {
            "GET /v1/files/out-1:download": httpx2.Response(200, content=content),
            "GET /v1/files/out-1": size or answer({"name": "files/out-1", "sizeBytes": str(len(content))}),
        }
    )
    state = BatchState("batches/b-1", Phase.COMPLETED, "JOB_STATE_SUCCEEDED", output_file_id="files/out-1")
    return [item async for item in adapter(script).results(state)]


LINES: list[tuple[dict[str, Any], F | None]] = [
    ({"response": gemini()}, None),
    ({"error": {"code": 3, "message": "canary"}}, F.SCHEMA_INVALID),
    ({"error": {"code": 8, "message": "canary"}}, F.RATE_LIMITED),
    ({"error": {"code": 13, "message": "canary"}}, F.UPSTREAM_5XX),
    ({"error": {"code": 14}}, F.NETWORK_RESET),
    ({"error": {"code": 1}}, F.BATCH_EXPIRED),
    ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, F.RATE_LIMITED),
    ({"error": {"code": 400, "status": "INVALID_ARGUMENT"}}, F.SCHEMA_INVALID),
    ({"error": {"code": 500}}, F.UPSTREAM_5XX),
    ({"error": {"message": "?"}}, F.UPSTREAM_5XX),
    ({}, F.UPSTREAM_5XX),
    ({"response": {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}}, F.POLICY_REJECTED),
    ({"response": {"candidates": []}}, F.UPSTREAM_5XX),
    *(
        ({"response": gemini(finish=finish)}, F.POLICY_REJECTED)
        for finish in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
    ),
    ({"response": gemini(finish="MAX_TOKENS")}, F.SCHEMA_INVALID),
    ({"response": gemini(finish="OTHER")}, F.UPSTREAM_5XX),
    ({"response": gemini("a\x00b")}, F.SCHEMA_INVALID),
]


@pytest.mark.contract("A-96", "C-37")
async def test_each_line_has_its_own_answer_or_its_own_failure() -> None:
    items = await collected(jsonl(*({"key": f"k-{number}", **said} for number, (said, _) in enumerate(LINES))))
    assert [item.custom_id for item in items] == [f"k-{number}" for number in range(len(LINES))]
    assert [item.failure.error_class if item.failure else None for item in items] == [row[1] for row in LINES]
    assert items[0].answer is not None
    assert items[0].answer.data == {"text": "bonjour"}


async def test_a_truncated_file_gives_out_nothing() -> None:
    whole = jsonl({"key": "a", "response": gemini()}, {"key": "b", "response": gemini()})
    sized = answer({"name": "files/out-1", "sizeBytes": str(len(whole))})
    untold = answer(gemini_error("permission_denied", 403), 403)
    for content, size in ((whole[:-9], untold), (whole[: len(whole) // 2], sized)):
        with pytest.raises(Failed) as raised:
            await collected(content, size)
        assert raised.value.error_class is F.NETWORK_RESET


async def test_a_file_whose_size_nobody_tells_is_read_all_the_same() -> None:
    whole = jsonl({"key": "a", "response": gemini()})
    assert len(await collected(whole, answer(gemini_error("permission_denied", 403), 403))) == 1


async def test_an_expired_batch_has_no_results() -> None:
    script = Script({"*": answer(batch("BATCH_STATE_EXPIRED"))})
    state = await adapter(script).poll("batches/b-1")
    assert [item async for item in adapter(script).results(state)] == []
    assert len(script.requests) == 1


async def test_cancelling_what_is_over_is_no_error_and_deleting_what_is_gone_neither() -> None:
    script = Script(
        {
            "POST /v1/batches/b-1:cancel": answer(gemini_error("failed_precondition", 400), 400),
            "GET /v1/batches/b-1": answer(batch("BATCH_STATE_SUCCEEDED")),
            "DELETE /v1/files/in-1": answer({}),
            "DELETE /v1/files/out-1": answer(gemini_error("not_found", 404), 404),
        }
    )
    asked = adapter(script)
    await asked.cancel("batches/b-1")
    state = BatchState("batches/b-1", Phase.COMPLETED, "x", input_file_id="files/in-1", output_file_id="files/out-1")
    await asked.discard(state)
    script.replies["GET /v1/batches/b-1"] = answer(batch())
    with pytest.raises(Failed):
        await asked.cancel("batches/b-1")


async def test_a_model_that_could_leave_its_place_in_the_path_is_refused() -> None:
    from dataclasses import replace

    script = Script()
    with pytest.raises(NotPerformed):
        await adapter(script).create(replace(submission(), model="a/../../files"), Uploaded("files/in-1"))
    assert script.requests == []
