"""OpenAI's files and batches: the life of a batch, and what is known when a step of it fails."""

from __future__ import annotations

import json
import socket
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from penstock.contract.errors import Failed, NotPerformed
from penstock.contract.failures import FailureClass as F
from penstock.providers.port import BatchAdapter, BatchState, Phase, Uploaded
from penstock.providers.wire import MOST_BYTES
from tests.providers.clock import LATER, NOW, STAMP
from tests.providers.kinds import CHAT, RESPONSES, openai_error
from tests.providers.support import BATCH, Reply, Script, Stream, adapters, answer, caused, request, submission

TOKEN = BATCH.hex
BATCHES = "/v1/batches"
each_endpoint = pytest.mark.parametrize("kind", [RESPONSES, CHAT], ids=str)


def adapter(script: Script, kind: str = "openai_responses") -> BatchAdapter:
    return adapters(script).get(request(kind).route)


def batch(status: str = "in_progress", **changes: Any) -> dict[str, Any]:
    body = {
        "id": "batch_1",
        "object": "batch",
        "endpoint": "/v1/responses",
        "status": status,
        "input_file_id": "file-in",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": STAMP,
        "expires_at": STAMP + 86_400,
        "request_counts": {"total": 2, "completed": 0, "failed": 0},
        "metadata": {"submission_id": TOKEN},
    }
    return {**body, **changes}


@each_endpoint
@pytest.mark.contract("A-40")
async def test_the_lines_go_up_in_one_file_named_after_the_token(kind: Any) -> None:
    script = Script({"POST /v1/files": answer({"id": "file-in"})})
    sent = [b'{"custom_id":"a"}', '{"custom_id":"é"}'.encode()]
    uploaded = await adapter(script, kind.name).upload(submission(*sent))

    assert uploaded == Uploaded("file-in")
    content = script.requests[0].content
    assert b"\n".join(sent) + b"\n" in content
    assert f'filename="{TOKEN}.jsonl"'.encode() in content
    assert b'name="purpose"\r\n\r\nbatch\r\n' in content


@each_endpoint
@pytest.mark.contract("A-40")
async def test_the_batch_carries_the_token_as_metadata(kind: Any) -> None:
    script = Script({f"POST {BATCHES}": answer(batch("validating"))})
    created = await adapter(script, kind.name).create(submission(), Uploaded("file-in"))

    assert script.last == {
        "input_file_id": "file-in",
        "endpoint": kind.path.removeprefix("POST "),
        "completion_window": "24h",
        "metadata": {"submission_id": TOKEN},
    }
    assert (created.provider_batch_id, created.input_file_id) == ("batch_1", "file-in")
    assert (created.created_at, created.expires_at) == (NOW, NOW + timedelta(days=1))
    assert (created.ended, created.cancelled) == (False, False)


CERTAIN: list[tuple[str, Reply, F]] = [
    ("refused", caused(httpx2.ConnectError("x"), ConnectionRefusedError(111, "x")), F.NETWORK_RESET),
    ("no name", caused(httpx2.ConnectError("x"), socket.gaierror(-2, "x")), F.DNS_FAILURE),
    ("connect timeout", httpx2.ConnectTimeout("x"), F.NETWORK_TIMEOUT),
    ("pool timeout", httpx2.PoolTimeout("x"), F.NETWORK_TIMEOUT),
    ("400", answer(openai_error("", 400), 400), F.SCHEMA_INVALID),
    ("401", answer(openai_error("", 401), 401), F.AUTH_DENIED),
    ("404", answer(openai_error("", 404), 404), F.NOT_FOUND),
    ("429", answer(openai_error("", 429), 429, retry_after="9"), F.RATE_LIMITED),
    ("quota", answer(openai_error("insufficient_quota", 429), 429), F.QUOTA_EXHAUSTED),
]
OPEN: list[tuple[str, Reply, F]] = [
    ("read timeout", httpx2.ReadTimeout("x"), F.NETWORK_TIMEOUT),
    ("write timeout", httpx2.WriteTimeout("x"), F.NETWORK_TIMEOUT),
    ("reset", httpx2.ReadError("x"), F.NETWORK_RESET),
    ("broke off", httpx2.RemoteProtocolError("x"), F.NETWORK_RESET),
    ("408", answer(openai_error("", 408), 408), F.NETWORK_TIMEOUT),
    ("500", answer(openai_error("", 500), 500), F.UPSTREAM_5XX),
    ("503", answer(openai_error("", 503), 503), F.NETWORK_RESET),
    ("html", httpx2.Response(200, text="<html>"), F.UPSTREAM_5XX),
    ("no id", answer({}), F.UPSTREAM_5XX),
    ("endless", lambda request: httpx2.Response(200, content=Stream(b" " * (MOST_BYTES + 1))), F.SCHEMA_INVALID),
]


@pytest.mark.parametrize(("reply", "expected"), [row[1:] for row in CERTAIN], ids=[row[0] for row in CERTAIN])
@pytest.mark.parametrize("step", ["upload", "create"])
@pytest.mark.contract("C-36")
async def test_what_certainly_did_not_happen_is_said_so(step: str, reply: Reply, expected: F) -> None:
    script = Script({"*": reply})
    with pytest.raises(NotPerformed) as raised:
        await act(script, step)
    assert isinstance(raised.value.__cause__, Failed)
    assert raised.value.__cause__.error_class is expected
    assert len(script.requests) == 1
    if expected is F.RATE_LIMITED:
        assert raised.value.__cause__.retry_after == timedelta(seconds=9)


@pytest.mark.parametrize(("reply", "expected"), [row[1:] for row in OPEN], ids=[row[0] for row in OPEN])
@pytest.mark.parametrize("step", ["upload", "create"])
@pytest.mark.contract("C-36")
async def test_what_may_have_happened_is_left_open_and_not_sent_again(step: str, reply: Reply, expected: F) -> None:
    script = Script({"*": reply})
    with pytest.raises(Failed) as raised:
        await act(script, step)
    assert raised.value.error_class is expected
    assert len(script.requests) == 1


async def act(script: Script, step: str) -> None:
    if step == "upload":
        await adapter(script).upload(submission(b"{}"))
    else:
        await adapter(script).create(submission(b"{}"), Uploaded("file-in"))


@pytest.mark.contract("C-36")
async def test_a_batch_is_found_by_its_metadata_page_by_page_back_to_its_time() -> None:
    other = batch(id="batch_9", metadata={"submission_id": "f" * 32})
    old = batch(id="batch_old", created_at=STAMP - 3600)
    pages: list[Reply] = [
        answer({"data": [other], "has_more": True}),
        answer({"data": [batch("cancelling"), batch("completed", id="batch_0", created_at=STAMP - 5), old]}),
    ]
    script = Script({f"GET {BATCHES}": pages})
    found = await adapter(script).find(BATCH, NOW, LATER)

    assert [(one.provider_batch_id, one.ended, one.cancelled) for one in found] == [
        ("batch_1", False, True),
        ("batch_0", True, False),
    ]
    assert script.requests[1].url.params["after"] == "batch_9"


async def test_a_batch_whose_metadata_was_lost_is_found_by_the_name_of_its_file() -> None:
    other = batch(id="batch_2", metadata={}, input_file_id="x")
    script = Script(
        {
            f"GET {BATCHES}": answer({"data": [batch(metadata=None), other]}),
            "GET /v1/files": answer({"data": [{"id": "file-in", "filename": f"{TOKEN}.jsonl", "created_at": STAMP}]}),
        }
    )
    assert [one.provider_batch_id for one in await adapter(script).find(BATCH, NOW, LATER)] == ["batch_1"]


async def test_an_empty_list_is_an_absence_and_a_refused_one_is_not() -> None:
    assert await adapter(Script({"*": answer({"data": [], "has_more": False})})).find(BATCH, NOW, LATER) == []
    for reply in (answer({}, 500), answer({}, 401), httpx2.Response(200, text="<html>"), answer({"data": None})):
        with pytest.raises(Failed):
            await adapter(Script({"*": reply})).find(BATCH, NOW, LATER)


async def test_a_list_without_an_end_is_no_list() -> None:
    script = Script({"*": answer({"data": [batch(id="b", metadata={"submission_id": "x"})], "has_more": True})})
    with pytest.raises(Failed) as raised:
        await adapter(script).find(BATCH, NOW, LATER)
    assert raised.value.error_class is F.UPSTREAM_5XX


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ("validating", Phase.RUNNING),
        ("in_progress", Phase.RUNNING),
        ("finalizing", Phase.RUNNING),
        ("cancelling", Phase.RUNNING),
        ("completed", Phase.COMPLETED),
        ("failed", Phase.FAILED),
        ("expired", Phase.EXPIRED),
        ("cancelled", Phase.CANCELLED),
    ],
)
async def test_every_state_comes_down_to_a_phase(status: str, phase: Phase) -> None:
    state = await adapter(Script({"*": answer(batch(status))})).poll("batch_1")
    assert (state.phase, state.provider_status) == (phase, status)


@pytest.mark.parametrize("status", ["contemplating", None, 7, ["completed"]])
async def test_a_state_nobody_knows_is_still_running(status: object) -> None:
    state = await adapter(Script({"*": answer({**batch(), "status": status})})).poll("batch_1")
    assert (state.phase, state.provider_status) == (Phase.RUNNING, "unknown")


@pytest.mark.parametrize("absent", [None, ""])
async def test_an_empty_file_id_is_no_file(absent: str | None) -> None:
    body = batch("completed", output_file_id=absent, error_file_id=absent)
    state = await adapter(Script({"*": answer(body)})).poll("batch_1")
    assert (state.output_file_id, state.error_file_id) == (None, None)
    assert [item async for item in adapter(Script()).results(state)] == []


async def test_a_batch_that_is_not_there_is_not_found() -> None:
    with pytest.raises(Failed) as raised:
        await adapter(Script({"*": answer(openai_error("", 404), 404)})).poll("batch_1")
    assert raised.value.error_class is F.NOT_FOUND


@pytest.mark.contract("C-37")
async def test_a_refused_batch_names_its_bad_lines_from_zero() -> None:
    errors = {"data": [{"code": "missing_required_parameter", "line": 2, "message": "canary", "param": "body"}]}
    body = batch("failed", errors=errors, request_counts={"total": 0, "completed": 0, "failed": 0})
    state = await adapter(Script({"*": answer(body)})).poll("batch_1")

    assert state.phase is Phase.FAILED
    assert [(bad.index, bad.failure.error_class) for bad in state.bad_lines] == [(1, F.SCHEMA_INVALID)]
    assert "canary" not in repr(state)


@pytest.mark.contract("C-37")
async def test_back_pressure_is_nobodys_line() -> None:
    errors = {"data": [{"code": "token_limit_exceeded", "line": None, "message": "x", "param": None}]}
    state = await adapter(Script({"*": answer(batch("failed", errors=errors))})).poll("batch_1")
    assert [(bad.index, bad.failure.error_class) for bad in state.bad_lines] == [(None, F.RATE_LIMITED)]


@pytest.mark.parametrize("status", ["completed", "cancelled", "cancelling", "expired", "failed"])
async def test_cancelling_what_is_over_is_no_error(status: str) -> None:
    script = Script(
        {
            f"POST {BATCHES}/batch_1/cancel": answer(openai_error("", 409), 409),
            f"GET {BATCHES}/batch_1": answer(batch(status)),
        }
    )
    await adapter(script).cancel("batch_1")


async def test_a_refusal_to_cancel_what_runs_is_one() -> None:
    path = f"POST {BATCHES}/batch_1/cancel"
    script = Script({path: answer(openai_error("", 409), 409), f"GET {BATCHES}/batch_1": answer(batch())})
    with pytest.raises(Failed):
        await adapter(script).cancel("batch_1")
    script.replies[path] = answer(openai_error("", 401), 401)
    with pytest.raises(Failed) as raised:
        await adapter(script).cancel("batch_1")
    assert raised.value.error_class is F.AUTH_DENIED
    script.replies[path] = answer(batch("cancelling"))
    await adapter(script).cancel("batch_1")


async def test_files_are_deleted_and_what_is_gone_is_fine() -> None:
    script = Script({"DELETE /v1/files/in": answer({}), "DELETE /v1/files/out": answer({}, 404)})
    state = BatchState("b", Phase.COMPLETED, "completed", input_file_id="in", output_file_id="out")
    await adapter(script).discard(state)
    assert [one.url.path for one in script.requests] == ["/v1/files/in", "/v1/files/out"]
    script.replies["DELETE /v1/files/in"] = answer({}, 500)
    with pytest.raises(Failed):
        await adapter(script).discard(state)


@pytest.mark.parametrize("identity", ["../files/x", "a b", "", "a?x=1", "a#", "a\n", "é"])
async def test_an_id_that_could_leave_its_place_in_the_path_is_not_asked_for(identity: str) -> None:
    script = Script()
    with pytest.raises(Failed) as raised:
        await adapter(script).poll(identity)
    assert raised.value.error_class is F.NOT_FOUND
    assert script.requests == []


def test_the_limits_are_the_providers() -> None:
    limits = adapter(Script()).limits
    assert (limits.items, limits.body_bytes, limits.window) == (50_000, 200_000_000, timedelta(hours=24))
    assert json.loads(adapter(Script()).line("c", request("openai_responses")))["url"] == "/v1/responses"
