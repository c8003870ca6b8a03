"""What the contract forbids about items, shown one by one: nothing shared, nothing reused, nothing partial."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from penstock import Failed, FailureClass
from penstock import Schedule as Delays
from penstock.contract.calls import Answer, Route
from penstock.contract.groups import may_micro_batch
from penstock.providers.port import ItemResult
from tests.engine.batches.conftest import Lane, MakeLane
from tests.engine.batches.returning import Home, all_answers, answer, error, make_home, store
from tests.support.fake_provider import FakeBatch

PARTS = (
    "adapter", "base_url", "provider", "model", "prompt_version", "policy_version", "execution_mode", "lane",
    "source_locale", "target_locale",
)  # fmt: skip


@pytest.fixture
async def home(make_lane: MakeLane) -> Home:
    return await make_home(make_lane, lane={"persist": store}, backoff=Delays([60]))


@pytest.mark.contract("L-53", "A-50")
async def test_the_same_text_for_two_recipients_is_asked_twice_and_answered_apart(home: Home) -> None:
    ids = await home.sent(2, text="the very same words")

    def lines(batch: FakeBatch) -> list[ItemResult]:
        return [answer(r["custom_id"], f"answer {n}", seconds=n) for n, r in enumerate(batch.requests())]

    home.provider.lines = lines
    await home.collected()

    (batch,) = home.provider.batches
    assert [request["text"] for request in batch.requests()] == ["the very same words"] * 2
    assert [item["job_id"] for item in await home.items()] == ids
    assert await home.outputs() == {ids[0]: "answer 0", ids[1]: "answer 1"}


@pytest.mark.contract("L-53", "A-51")
def test_no_micro_batch_crosses_a_target_locale_or_a_provider_that_cannot() -> None:
    german, spanish = (Route("openai", "small", "fake", target_locale=locale) for locale in ("de-DE", "es-ES"))
    assert may_micro_batch([german, german], supported=True)
    assert not may_micro_batch([german, spanish], supported=True)
    assert not may_micro_batch([german, german], supported=False)


@pytest.mark.contract("L-53", "A-56")
async def test_no_request_holds_the_words_of_another_user(lane: Lane) -> None:
    canaries = [f"canary-{n}-x" for n in range(5)]
    for canary in canaries:
        await lane.fill(1, text=canary)

    await lane.submitted()

    (batch,) = lane.provider.batches
    assert [[c for c in canaries if c.encode() in line] for line in batch.lines] == [[c] for c in canaries]


@pytest.mark.contract("L-53", "A-57")
async def test_half_a_download_stores_nothing(home: Home) -> None:
    ids = await home.sent(4)
    home.provider.breaks_after = 2

    await home.collected()

    assert await home.outputs() == {}
    assert {status for status, _ in await home.codes(ids)} == {"batch_submitted"}


@pytest.mark.contract("A-58", "A-94")
async def test_each_item_of_a_mixed_batch_is_judged_by_what_its_own_job_wants(make_lane: MakeLane) -> None:
    def accept(_job: Any, args: dict[str, Any], said: Answer) -> str:
        if not said.text.endswith(args["wanted"]):
            raise Failed(FailureClass.LOCALE_MISMATCH)
        return said.text

    home = await make_home(make_lane, lane={"accept": accept, "persist": store})
    german, spanish, wrong = [
        (await home.fill(1, text=f"said in {said}", wanted=wanted, home_id=wanted))[0]
        for said, wanted in (("German", "German"), ("Spanish", "Spanish"), ("German", "Spanish"))
    ]
    await home.submitted()

    await home.collected()

    assert len(home.provider.batches) == 1
    assert await home.outputs() == {german: "re: said in German", spanish: "re: said in Spanish"}
    assert await home.codes([wrong]) == [("failed", "LOCALE_MISMATCH")]


@pytest.mark.contract("A-32", "L-44")
async def test_the_database_refuses_a_second_provider_batch_for_a_job(lane: Lane) -> None:
    (job_id,) = await lane.fill(1)
    await lane.submitted()

    for other in ("another", None):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await lane.owner.execute("update penstock.jobs set provider_batch_id = $2 where job_id = $1", job_id, other)
        assert refused.value.sqlstate == "PS001"
    assert (await lane.job(job_id))["provider_batch_id"] == "pb_1"


@pytest.mark.contract("A-61", "L-54")
@pytest.mark.parametrize("code", ["NETWORK_TIMEOUT", "NETWORK_RESET", "UPSTREAM_5XX", "RATE_LIMITED"])
async def test_what_passes_by_itself_puts_the_job_back_with_a_delay(home: Home, code: str) -> None:
    (job_id,) = await home.sent(1)
    home.provider.lines = lambda batch: [
        error(r["custom_id"], FailureClass(code), retryable=True) for r in batch.requests()
    ]

    await home.collected()

    row = await home.job(job_id)
    assert (row["status"], row["last_error_code"], row["attempt_count"]) == ("queued", code, 1)
    assert row["run_at"] > await home.now()


@pytest.mark.contract("C-40")
async def test_a_second_try_goes_the_way_of_the_first(home: Home) -> None:
    (job_id,) = await home.sent(
        1, base_url="http://127.0.0.1:1/v1", prompt_version="v7", policy_version="v3", lane="slow",
        source_locale="en-US", target_locale="de-DE",
    )  # fmt: skip
    home.provider.lines = lambda batch: [
        error(r["custom_id"], FailureClass.UPSTREAM_5XX, retryable=True) for r in batch.requests()
    ]
    await home.collected()
    home.provider.lines = all_answers
    await home.pass_time(minutes=2)

    await home.submitted()
    await home.collected()

    first, second = ([batch[part] for part in PARTS] for batch in await home.batches())
    assert first == second
    assert await home.outputs() == {job_id: "re: letter 0"}


@pytest.mark.contract("A-65", "L-56", "C-40")
async def test_the_database_refuses_another_route_once_a_job_is_there(home: Home) -> None:
    (job_id,) = await home.fill(1, model="small", target_locale="de-DE")

    async def refuses() -> bool:
        """By the owner's own hand, too."""
        for change in ({"model": "large"}, {"target_locale": "es-ES"}, {"prompt_version": "v9"}, {"lane": "fast"}):
            with pytest.raises(asyncpg.PostgresError) as refused:
                await home.owner.execute(
                    "update penstock.jobs set payload = payload || $2::jsonb where job_id = $1",
                    job_id,
                    json.dumps(change),
                )
            assert refused.value.sqlstate == "PS001"
        return True

    assert await refuses(), "before its first attempt"
    await home.submitted()
    assert await refuses(), "while its batch runs"
    home.provider.lines = lambda batch: [
        error(r["custom_id"], FailureClass.UPSTREAM_5XX, retryable=True) for r in batch.requests()
    ]
    await home.collected()
    assert await refuses(), "between two attempts"
