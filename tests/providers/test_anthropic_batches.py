"""Anthropic's batches: requests that travel with the create, and a search that has to wait for the end."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from penstock.contract.errors import EffectUncertain, Failed, NotPerformed
from penstock.contract.failures import FailureClass as F
from penstock.providers.port import BatchAdapter, BatchState, ItemResult, Lookup, Phase, Uploaded
from tests.providers.clock import LATER, NOW
from tests.providers.kinds import anthropic, anthropic_error
from tests.providers.support import BATCH, Reply, Script, Stream, adapters, answer, jsonl, request, submission

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = BATCH.hex
PATH = "/v1/messages/batches"
ENDED = "2026-11-15T13:00:00Z"


def adapter(script: Script) -> BatchAdapter:
    return adapters(script).get(request("anthropic_messages").route)


def batch(status: str = "in_progress", **changes: Any) -> dict[str, Any]:
    body = {
        "id": "msgbatch_1",
        "type": "message_batch",
        "processing_status": status,
        "created_at": "2026-11-15T12:00:00Z",
        "expires_at": "2026-11-16T12:00:00Z",
        "ended_at": ENDED if status == "ended" else None,
        "cancel_initiated_at": None,
        "results_url": "https://elsewhere.example/results" if status == "ended" else None,
        "request_counts": {"processing": 2, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
    }
    return {**body, **changes}


def line(number: int, result: dict[str, Any], token: str = TOKEN) -> dict[str, Any]:
    return {"custom_id": f"{token}-{number}-7", "result": result}


@pytest.mark.contract("A-40")
async def test_the_requests_travel_with_the_create() -> None:
    script = Script({f"POST {PATH}": answer(batch())})
    asked = adapter(script)
    lines = [asked.line(f"{TOKEN}-{number}-7", request("anthropic_messages", text=f"t{number}")) for number in range(3)]
    assert await asked.upload(submission(*lines)) == Uploaded()
    created = await asked.create(submission(*lines), Uploaded())

    assert [one["custom_id"] for one in script.last["requests"]] == [f"{TOKEN}-{number}-7" for number in range(3)]
    assert [one["params"]["messages"][0]["content"] for one in script.last["requests"]] == ["t0", "t1", "t2"]
    assert script.requests[0].headers["content-length"] == str(len(script.requests[0].content))
    assert script.requests[0].headers["content-type"] == "application/json"
    assert (created.provider_batch_id, created.expires_at) == ("msgbatch_1", NOW + timedelta(days=1))


@pytest.mark.parametrize(
    ("reply", "certain"),
    [
        (answer(anthropic_error("invalid_request_error", 400), 400), True),
        (answer(anthropic_error("rate_limit_error", 429), 429), True),
        (httpx2.ConnectError("x"), True),
        (httpx2.ReadTimeout("x"), False),
        (httpx2.RemoteProtocolError("x"), False),
        (answer(anthropic_error("overloaded_error", 529), 529), False),
        (httpx2.Response(200, text="<html>"), False),
    ],
)
@pytest.mark.contract("C-36")
async def test_a_create_says_whether_it_may_have_happened(reply: Reply, certain: bool) -> None:
    script = Script({"*": reply})
    with pytest.raises(NotPerformed if certain else Failed):
        await adapter(script).create(submission(b"{}"), Uploaded())
    assert len(script.requests) == 1


def listed(*batches: dict[str, Any], **results: bytes) -> Script:
    replies: dict[str, Reply | list[Reply]] = {f"GET {PATH}": answer({"data": list(batches), "has_more": False})}
    for name, content in results.items():
        replies[f"GET {PATH}/{name}/results"] = httpx2.Response(200, content=content)
    return Script(replies)


@pytest.mark.contract("C-66")
async def test_an_ended_batch_is_known_by_the_custom_ids_of_its_results() -> None:
    expired = {"type": "expired"}
    script = listed(
        batch("ended", id="mine"),
        batch("ended", id="other"),
        batch("ended", id="old", created_at="2026-11-15T10:00:00Z"),
        mine=jsonl(line(1, expired), line(0, expired)),
        other=jsonl(line(0, expired, token="f" * 32)),
    )
    found = await adapter(script).find(BATCH, NOW, LATER)
    assert [one.provider_batch_id for one in found] == ["mine"]
    assert adapter(script).lookup is Lookup.AFTER_END


@pytest.mark.contract("C-66")
async def test_while_a_candidate_runs_nothing_can_be_said() -> None:
    other = jsonl(line(0, {"type": "expired"}, token="f" * 32))
    with pytest.raises(EffectUncertain):
        await adapter(listed(batch(id="running"), batch("ended", id="other"), other=other)).find(BATCH, NOW, LATER)
    with pytest.raises(EffectUncertain):
        await adapter(listed(batch("canceling"))).find(BATCH, NOW, LATER)
    assert await adapter(listed(batch("ended", id="other"), other=other)).find(BATCH, NOW, LATER) == []
    assert await adapter(listed()).find(BATCH, NOW, LATER) == []


@pytest.mark.contract("C-66")
async def test_a_result_that_nobody_asked_for_does_not_hide_whose_batch_it_is() -> None:
    foreign = line(0, {"type": "succeeded", "message": anthropic("x" * 70_000)}, token="f" * 32)
    mine = jsonl(foreign, line(0, {"type": "expired"}))
    (found,) = await adapter(listed(batch("ended", id="mine"), mine=mine)).find(BATCH, NOW, LATER)
    assert found.provider_batch_id == "mine"


@pytest.mark.contract("C-66")
async def test_our_name_in_the_text_of_another_batch_makes_it_no_batch_of_ours() -> None:
    said = anthropic(f'"custom_id":"{TOKEN}-0-7"')
    other = jsonl(line(0, {"type": "succeeded", "message": said}, token="f" * 32))
    assert await adapter(listed(batch("ended", id="other"), other=other)).find(BATCH, NOW, LATER) == []


@pytest.mark.contract("C-66", "C-36")
@pytest.mark.parametrize("cut", [0, 20])
async def test_results_that_broke_off_before_a_name_are_no_absence(cut: int) -> None:
    whole = jsonl(line(0, {"type": "expired"}))
    script = listed(batch("ended", id="mine"))
    script.replies[f"GET {PATH}/mine/results"] = lambda _: httpx2.Response(200, content=Stream(whole[:cut]))
    with pytest.raises(Failed):
        await adapter(script).find(BATCH, NOW, LATER)


@pytest.mark.contract("C-66", "C-36")
async def test_an_ended_batch_without_results_may_be_anybodys() -> None:
    with pytest.raises(EffectUncertain):
        await adapter(listed(batch("ended", id="mine", results_url=None))).find(BATCH, NOW, LATER)


async def test_a_large_batch_of_others_is_not_read_to_its_end() -> None:
    long = line(0, {"type": "succeeded", "message": anthropic("x" * 70_000)}, token="f" * 32)
    sent = Counter[str]()

    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while sent["lines"] < 1000:
                sent["lines"] += 1
                yield jsonl(long)

    script = listed(batch("ended", id="other"))
    script.replies[f"GET {PATH}/other/results"] = lambda _: httpx2.Response(200, stream=Endless())
    assert await adapter(script).find(BATCH, NOW, LATER) == []
    assert sent["lines"] < 10


@pytest.mark.contract("C-66")
async def test_what_was_created_later_is_no_candidate_so_that_a_busy_lane_can_prove_an_absence() -> None:
    newer = batch(id="newer", created_at="2026-11-15T13:00:01Z")
    script = listed(newer, batch("ended", id="other"), other=jsonl(line(0, {"type": "expired"}, token="f" * 32)))
    assert await adapter(script).find(BATCH, NOW, LATER) == []
    with pytest.raises(EffectUncertain):
        await adapter(script).find(BATCH, NOW, LATER + timedelta(seconds=1))
    with pytest.raises(EffectUncertain):  # nobody knows when it was made
        await adapter(listed(batch(created_at=None))).find(BATCH, NOW, LATER)


async def test_the_key_goes_to_the_provider_and_not_to_a_url_it_names() -> None:
    script = listed(batch("ended", id="mine"), mine=jsonl(line(0, {"type": "expired"})))
    await adapter(script).find(BATCH, NOW, LATER)
    assert {one.url.host for one in script.requests} == {"api.anthropic.com"}


async def test_a_list_that_cannot_be_read_is_no_absence() -> None:
    for reply in (answer({}, 500), answer({}, 401), httpx2.Response(200, text="<html>"), answer({"data": 1})):
        with pytest.raises(Failed):
            await adapter(Script({"*": reply})).find(BATCH, NOW, LATER)


@pytest.mark.parametrize(
    ("body", "phase", "status"),
    [
        (batch(), Phase.RUNNING, "in_progress"),
        (batch("canceling"), Phase.RUNNING, "canceling"),
        (batch("ended"), Phase.COMPLETED, "ended"),
        (batch("ended", cancel_initiated_at=ENDED), Phase.CANCELLED, "ended"),
        (batch("ended", ended_at="2026-11-16T12:00:01Z"), Phase.EXPIRED, "ended"),
        (batch("pondering"), Phase.RUNNING, "unknown"),
    ],
)
async def test_every_state_comes_down_to_a_phase(body: dict[str, Any], phase: Phase, status: str) -> None:
    state = await adapter(Script({"*": answer(body)})).poll("msgbatch_1")
    assert (state.phase, state.provider_status, state.total) == (phase, status, 2)


async def test_a_batch_that_is_not_there_is_not_found() -> None:
    with pytest.raises(Failed) as raised:
        await adapter(Script({"*": answer(anthropic_error("not_found_error", 404), 404)})).poll("msgbatch_1")
    assert raised.value.error_class is F.NOT_FOUND


async def collected(reply: Reply) -> list[ItemResult]:
    state = BatchState("msgbatch_1", Phase.COMPLETED, "ended")
    return [item async for item in adapter(Script({f"GET {PATH}/msgbatch_1/results": reply})).results(state)]


def errored(code: str) -> dict[str, Any]:
    return {"type": "errored", "error": anthropic_error(code, 400)}


RESULTS: list[tuple[dict[str, Any], F | None]] = [
    ({"type": "succeeded", "message": anthropic()}, None),
    ({"type": "succeeded", "message": anthropic(stop="refusal")}, F.POLICY_REJECTED),
    ({"type": "succeeded", "message": anthropic(stop="max_tokens")}, F.SCHEMA_INVALID),
    ({"type": "succeeded", "message": anthropic(stop="model_context_window_exceeded")}, F.SCHEMA_INVALID),
    ({"type": "succeeded", "message": {}}, F.UPSTREAM_5XX),
    ({"type": "succeeded", "message": anthropic("a\x00b")}, F.SCHEMA_INVALID),
    ({"type": "expired"}, F.BATCH_EXPIRED),
    ({"type": "canceled"}, F.BATCH_EXPIRED),
    (errored("invalid_request_error"), F.SCHEMA_INVALID),
    (errored("overloaded_error"), F.UPSTREAM_5XX),
    (errored("api_error"), F.UPSTREAM_5XX),
    (errored("rate_limit_error"), F.RATE_LIMITED),
    (errored("authentication_error"), F.AUTH_DENIED),
    (errored("never_seen"), F.UPSTREAM_5XX),
    ({"type": "novel"}, F.UPSTREAM_5XX),
]


@pytest.mark.contract("A-96", "C-37")
async def test_each_line_has_its_own_answer_or_its_own_failure() -> None:
    content = jsonl(*(line(number, result) for number, (result, _) in enumerate(RESULTS)))
    items = await collected(httpx2.Response(200, content=content))
    assert [item.custom_id for item in items] == [f"{TOKEN}-{number}-7" for number in range(len(RESULTS))]
    assert [item.failure.error_class if item.failure else None for item in items] == [row[1] for row in RESULTS]
    assert items[0].answer is not None
    assert items[0].answer.data == {"text": "bonjour"}


WHOLE = jsonl(line(0, {"type": "expired"}), line(1, {"type": "expired"}))


@pytest.mark.parametrize(
    "reply",
    [
        httpx2.Response(200, content=Stream(WHOLE[:-4])),
        httpx2.Response(200, content=Stream(WHOLE[: len(WHOLE) // 2]), headers={"content-length": str(len(WHOLE))}),
        httpx2.Response(200, content=Stream(WHOLE[:9], httpx2.ReadError("x"))),
    ],
    ids=["mid-line", "short of its length", "reset"],
)
async def test_a_truncated_download_gives_out_nothing(reply: httpx2.Response) -> None:
    with pytest.raises(Failed) as raised:
        await collected(lambda request: reply)
    assert raised.value.error_class is F.NETWORK_RESET


async def test_cancelling_what_is_over_is_no_error_and_deleting_what_is_gone_neither() -> None:
    refusal = answer(anthropic_error("invalid_request_error", 400), 400)
    script = Script(
        {
            f"POST {PATH}/msgbatch_1/cancel": refusal,
            f"GET {PATH}/msgbatch_1": answer(batch("ended")),
            f"DELETE {PATH}/msgbatch_1": answer(anthropic_error("not_found_error", 404), 404),
        }
    )
    await adapter(script).cancel("msgbatch_1")
    await adapter(script).discard(BatchState("msgbatch_1", Phase.COMPLETED, "ended"))
    script.replies[f"GET {PATH}/msgbatch_1"] = answer(batch())
    with pytest.raises(Failed):
        await adapter(script).cancel("msgbatch_1")
