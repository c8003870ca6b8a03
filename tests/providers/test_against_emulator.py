"""The four adapters end to end, through real sockets, against a provider that fails on request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from penstock.contract.calls import Request
from penstock.contract.custom_ids import custom_id
from penstock.contract.errors import EffectUncertain, Failed
from penstock.contract.failures import FailureClass as F
from penstock.emulator import Emulator
from penstock.providers.port import BatchAdapter, BatchState, ItemResult, Lookup, Phase, Submission
from penstock.providers.registry import Adapters
from tests.providers.kinds import Kind, each_kind
from tests.providers.support import KEY, request
from tests.support.emulator import BATCH_SECONDS

CREATE = r"(/batches|:batchGenerateContent)$"
RESULTS = r"(/content|:download|/results)$"


class Desk:
    """One adapter at the emulator, and the steps that a submitter and a collector take."""

    def __init__(self, emulator: Emulator, kind: str) -> None:
        self.emulator = emulator
        urls = {
            "openai": emulator.openai_base_url,
            "gemini": emulator.gemini_base_url,
            "anthropic": emulator.anthropic_base_url,
        }
        self.asked: Request = request(kind, base_url=urls[kind.partition("_")[0]])
        self.adapters = Adapters({"openai": KEY, "gemini": KEY, "anthropic": KEY})
        self.adapter: BatchAdapter = self.adapters.get(self.asked.route)
        self.since = datetime.fromtimestamp(emulator.world.clock.now(), UTC)

    def submission(self, count: int = 4) -> Submission:
        batch_id = uuid4()
        lines = [
            self.adapter.line(custom_id(batch_id, number, 7), replace(self.asked, text=f"text {number}"))
            for number in range(count)
        ]
        return Submission(batch_id, self.asked.route.model, lines, self.since)

    async def submit(self, submission: Submission) -> str:
        uploaded = await self.adapter.upload(submission)
        return (await self.adapter.create(submission, uploaded)).provider_batch_id

    async def ended(self, provider_batch_id: str) -> BatchState:
        self.emulator.advance(BATCH_SECONDS)
        return await self.adapter.poll(provider_batch_id)

    async def items(self, state: BatchState) -> dict[str, ItemResult]:
        return {item.custom_id: item async for item in self.adapter.results(state)}


@pytest.fixture(scope="module")
def started() -> Iterator[Emulator]:
    """One server for all of them; a batch takes a minute of a clock that only `advance` moves."""
    with Emulator(finish_after=BATCH_SECONDS, frozen=True) as server:
        yield server


@pytest.fixture
def emulator(started: Emulator) -> Emulator:
    """The same server, with nothing of the test before."""
    started.reset()
    return started


@pytest.fixture
async def desk(emulator: Emulator, kind: Kind) -> AsyncIterator[Desk]:
    desk = Desk(emulator, kind.name)
    yield desk
    await desk.adapters.close()


def names(batch_id: UUID, count: int = 4) -> set[str]:
    return {custom_id(batch_id, number, 7) for number in range(count)}


@each_kind
async def test_a_single_call_is_answered(desk: Desk, kind: Kind) -> None:
    got = await desk.adapter.call(desk.asked, seconds=10)
    assert isinstance(got.data["text"], str)
    assert got.usage.input_tokens > 0
    assert got.usage.output_tokens > 0


@each_kind
@pytest.mark.contract("A-40", "C-66")
async def test_a_batch_goes_out_and_every_answer_comes_back_under_its_own_id(desk: Desk, kind: Kind) -> None:
    sent = desk.submission()
    provider_id = await desk.submit(sent)
    assert (await desk.adapter.poll(provider_id)).phase is Phase.RUNNING

    state = await desk.ended(provider_id)
    assert state.phase is Phase.COMPLETED
    items = await desk.items(state)
    assert set(items) == names(sent.batch_id)
    for item in items.values():
        assert item.failure is None
        assert item.answer is not None
        assert set(item.answer.data) == {"text"}
        assert item.answer.usage.output_tokens > 0

    await desk.adapter.cancel(provider_id)  # over: no error
    await desk.adapter.discard(state)
    await desk.adapter.discard(state)
    assert not [file for file in desk.emulator.files if file.id == state.output_file_id]


@each_kind
@pytest.mark.contract("C-36", "C-66")
async def test_a_create_whose_reply_was_lost_is_found_again(desk: Desk, kind: Kind) -> None:
    desk.emulator.faults.add("drop_after", method="POST", path=CREATE, times=1)
    sent, other = desk.submission(), desk.submission()
    with pytest.raises(Failed):
        await desk.submit(sent)
    await desk.submit(other)
    since, until = sent.created_at - timedelta(minutes=1), sent.created_at + timedelta(minutes=1)
    if desk.adapter.lookup is Lookup.AFTER_END:
        with pytest.raises(EffectUncertain):
            await desk.adapter.find(sent.batch_id, since, until)
        desk.emulator.advance(BATCH_SECONDS)
    assert len(await desk.adapter.find(sent.batch_id, since, until)) == 1
    assert await desk.adapter.find(uuid4(), since, until) == []


@each_kind
async def test_an_input_without_a_batch_is_deleted_by_its_name_and_no_other(desk: Desk, kind: Kind) -> None:
    sent, other = desk.submission(), desk.submission()
    await desk.adapter.upload(sent)
    await desk.adapter.upload(other)
    await desk.adapter.discard_input(sent.batch_id, sent.created_at)
    await desk.adapter.discard_input(sent.batch_id, sent.created_at)  # gone: no error
    left = [file.name for file in desk.emulator.files]
    assert left == ([] if kind.name == "anthropic_messages" else [name for name in left if other.token in name])
    assert len(left) == (kind.name != "anthropic_messages")


@each_kind
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_results_that_break_off_give_out_nothing_and_can_be_had_again(
    desk: Desk, kind: Kind, framing: str
) -> None:
    sent = desk.submission()
    state = await desk.ended(await desk.submit(sent))
    desk.emulator.faults.add("truncate", path=RESULTS, after=200, framing=framing, times=1)
    with pytest.raises(Failed) as raised:
        await desk.items(state)
    assert raised.value.error_class is F.NETWORK_RESET
    assert set(await desk.items(state)) == names(sent.batch_id)


@each_kind
async def test_a_cancelled_batch_keeps_what_was_finished(desk: Desk, kind: Kind) -> None:
    desk.emulator.faults.add("cancel_keeps", done=1)
    sent = desk.submission()
    provider_id = await desk.submit(sent)
    desk.emulator.advance(1)
    await desk.adapter.cancel(provider_id)
    await desk.adapter.cancel(provider_id)
    state = await desk.ended(provider_id)
    assert state.phase is Phase.CANCELLED
    answered = [item for item in (await desk.items(state)).values() if item.answer]
    assert len(answered) <= 1


@each_kind
async def test_an_expired_batch_is_one(desk: Desk, kind: Kind) -> None:
    desk.emulator.faults.add("expire", done=1)
    provider_id = await desk.submit(desk.submission())
    desk.emulator.advance(desk.adapter.limits.window.total_seconds())
    state = await desk.adapter.poll(provider_id)
    assert state.phase is Phase.EXPIRED
    items = (await desk.items(state)).values()
    assert {item.failure.error_class for item in items if item.failure} <= {F.BATCH_EXPIRED}


@each_kind
async def test_a_batch_that_is_gone_is_not_found(desk: Desk, kind: Kind) -> None:
    desk.emulator.faults.add("not_found", polls=1)
    provider_id = await desk.submit(desk.submission())
    with pytest.raises(Failed) as raised:
        await desk.adapter.poll(provider_id)
    assert raised.value.error_class is F.NOT_FOUND
    assert (await desk.adapter.poll(provider_id)).phase is Phase.RUNNING


FLAWS = {
    "refusal": F.POLICY_REJECTED,
    "content_filter": F.POLICY_REJECTED,
    "incomplete": F.SCHEMA_INVALID,
    "nul": F.SCHEMA_INVALID,
}


@each_kind
@pytest.mark.parametrize("flaw", FLAWS)
async def test_a_flawed_answer_fails_alone_with_its_class(desk: Desk, kind: Kind, flaw: str) -> None:
    desk.emulator.faults.add(flaw, items=[0])
    sent = desk.submission()
    items = await desk.items(await desk.ended(await desk.submit(sent)))
    failed = {name: item.failure.error_class for name, item in items.items() if item.failure}
    assert failed == {custom_id(sent.batch_id, 0, 7): FLAWS[flaw]}
    assert items[custom_id(sent.batch_id, 0, 7)].usage.input_tokens > 0  # paid for all the same


CALLS = {
    "rate_limited": F.RATE_LIMITED,
    "server_error": F.UPSTREAM_5XX,
    "bad_gateway": F.NETWORK_RESET,
    "unauthorized": F.AUTH_DENIED,
    "html": F.UPSTREAM_5XX,
    "broken_json": F.UPSTREAM_5XX,
    "empty_body": F.UPSTREAM_5XX,
    "drop": F.NETWORK_RESET,
    "drop_after": F.NETWORK_RESET,
    "truncate": F.NETWORK_RESET,
    "refusal": F.POLICY_REJECTED,
    "wrong_schema": F.SCHEMA_INVALID,
    "not_json": F.SCHEMA_INVALID,
    "nul": F.SCHEMA_INVALID,
    "huge": F.SCHEMA_INVALID,
    "incomplete": F.SCHEMA_INVALID,
}


@each_kind
@pytest.mark.parametrize("fault", CALLS)
async def test_a_single_call_that_goes_wrong_has_its_class(desk: Desk, kind: Kind, fault: str) -> None:
    settings = {"bytes": 2_000_000} if fault == "huge" else {}
    desk.emulator.faults.add(fault, **settings)
    with pytest.raises(Failed) as raised:
        await desk.adapter.call(desk.asked, seconds=10)
    assert raised.value.error_class is CALLS[fault]
    if fault in ("refusal", "wrong_schema", "not_json", "nul", "huge", "incomplete"):  # paid for all the same
        assert raised.value.usage is not None
        assert raised.value.usage.input_tokens > 0
