"""What it costs: tokens, prices, spend by day, and the cap that stops a type until tomorrow (C-64)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock import Failed, FailureClass, Penstock, Policy
from penstock.contract.calls import Answer, Execution, Request, Route, Usage
from penstock.contract.errors import SettingsInvalid
from penstock.contract.prices import Price, Prices, load_prices
from penstock.providers.port import ItemResult
from penstock.store import spend, types
from penstock.store.roles import OPERATOR, WORKER
from tests.engine.batches.conftest import TYPE, MakeLane
from tests.engine.batches.returning import USED, Home, error, make_home
from tests.support.fake_provider import FakeBatch

TABLE = json.dumps({"models": {"small": {"input": "2.50", "output": "10"}}})


async def priced(make_lane: MakeLane, table: str | None = TABLE, **options: Any) -> Home:
    home = await make_home(make_lane, **options)
    home.app.settings = home.app.settings.model_copy(update={"prices": table})
    return home


def test_tokens_times_price_in_millionths_and_half_of_it_in_a_batch() -> None:
    price = Price(Decimal("2.50"), Decimal(10))

    assert price.micros(Usage(1000, 200), Execution.ASYNC) == 4500
    assert price.micros(Usage(1000, 200), Execution.BATCH) == 2250
    assert Price(Decimal("0.1"), Decimal(0)).micros(Usage(5, 0), Execution.ASYNC) == 1  # to the nearest


def test_a_model_is_found_by_its_provider_first() -> None:
    prices = load_prices(
        '{"currency": "eur", "models": {"m": {"input": 1, "output": 1}, "p/m": {"input": 9, "output": 9}}}'
    )

    assert prices.currency == "EUR"
    assert prices.of("p", "m") == Price(Decimal(9), Decimal(9))
    assert prices.of("q", "m") == Price(Decimal(1), Decimal(1))
    assert prices.of("q", "unheard") is None
    assert load_prices(None) == Prices()


def test_a_table_comes_from_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(TABLE)

    assert load_prices(str(tmp_path / "prices.json")).of("acme", "small") is not None


@pytest.mark.parametrize(
    "table",
    [
        "{nonsense",
        "{}",
        '{"models": []}',
        '{"models": {"m": {"input": 1}}}',
        '{"models": {"m": {"input": -1, "output": 1}}}',
        '{"models": {"m": {"input": "free", "output": 1}}}',
        '{"models": {"m": {"input": 1, "output": 1, "batch": 2}}}',
        '{"models": {"m": {"input": 1, "output": 1, "tax": 2}}}',
        '{"models": {}, "currency": "dollars"}',
        '{"models": {"m": {"input": true, "output": 1}}}',
        '{"models": {"m": {"input": 1e400, "output": 1}}}',
        "/no/such/file",
    ],
)
def test_a_table_that_makes_no_sense_is_refused_before_anything_starts(table: str) -> None:
    with pytest.raises(SettingsInvalid):
        load_prices(table)


@pytest.mark.parametrize("cap", ["0", "-1", "a lot", "NaN", True, object()])
def test_a_cap_that_makes_no_sense_is_refused(cap: Any) -> None:
    with pytest.raises(SettingsInvalid, match="daily_spend_cap"):
        Policy("letters", daily_spend_cap=cap)


def test_a_cap_is_kept_exactly() -> None:
    policy = Policy("letters", daily_spend_cap="12.10")

    assert policy.cap_micros == 12_100_000
    assert policy.to_json()["daily_spend_cap"] == "12.10"
    assert Policy("letters").cap_micros is None


@pytest.mark.contract("C-64")
async def test_every_item_knows_what_it_used_and_cost_and_the_day_knows_the_sum(make_lane: MakeLane) -> None:
    home = await priced(make_lane)
    await home.fill(2, source_locale="de-DE", target_locale="en-GB")
    await home.submitted()

    await home.collected()

    items = [(i["input_tokens"], i["output_tokens"], i["cost_micros"]) for i in await home.items()]
    assert items == [(1000, 200, 2250)] * 2
    (found,) = await home.owner.fetch("select * from penstock.spend")
    row = dict(found)
    assert row.pop("day") == (await home.now()).date()
    assert row == {
        "job_type": TYPE, "provider": "acme", "model": "small", "source_locale": "de-DE", "target_locale": "en-GB",
        "execution": "batch", "calls": 2, "input_tokens": 2000, "output_tokens": 400, "cost_micros": 4500,
    }  # fmt: skip


async def test_a_model_without_a_price_costs_nothing_and_somebody_is_told_once(make_lane: MakeLane) -> None:
    home = await priced(make_lane, '{"models": {"other": {"input": 1, "output": 1}}}')
    await home.sent(1)
    await home.collected()
    await home.sent(1)
    await home.collected()

    assert [item["cost_micros"] for item in await home.items()] == [0, 0]
    (alert,) = await home.alerts("model_without_price")
    assert json.loads(alert["subject"]) == {"provider": "acme", "model": "small"}


async def test_without_a_table_nobody_is_told(make_lane: MakeLane) -> None:
    home = await priced(make_lane, None)
    await home.sent(1)
    await home.collected()

    assert await home.alert_kinds() == []
    assert await home.owner.fetchval("select input_tokens from penstock.spend") == USED.input_tokens


@pytest.mark.contract("C-64")
async def test_the_item_that_reaches_the_cap_pauses_the_type_until_the_next_day(make_lane: MakeLane) -> None:
    home = await priced(make_lane, daily_spend_cap="0.0045")  # two items
    await home.sent(1)
    await home.collected()
    assert (await home.type())["paused_at"] is None

    await home.sent(1)
    await home.collected()

    row = await home.type()
    assert (row["paused_by"], row["pause_reason"]) == ("penstock", "SPEND_CAP")
    assert await home.alert_kinds() == ["spend_cap_reached"]
    waiting = await home.fill(1)
    await home.submit()
    assert (await home.job(waiting[0]))["status"] == "queued"

    now = await home.now()
    await home.pass_time(
        seconds=(timedelta(days=1) - timedelta(hours=now.hour, minutes=now.minute)).total_seconds() + 60
    )
    await home.submit()
    assert (await home.type())["paused_at"] is None
    assert (await home.job(waiting[0]))["status"] == "batch_submitted"


@pytest.mark.contract("C-64")
async def test_only_what_the_cap_has_paused_is_opened_again(make_lane: MakeLane) -> None:
    home = await priced(make_lane, daily_spend_cap="1")
    policy = home.app.types.get(TYPE).policy
    await types.pause(home.app.pool, TYPE, who="somebody", why="SPEND_CAP")
    assert await spend.reopen(home.app.pool, [policy]) == []

    await types.pause(home.app.pool, TYPE, who="penstock", why="SPEND_CAP")
    assert await spend.reopen(home.app.pool, [policy]) == [TYPE]
    assert await spend.reopen(home.app.pool, [policy]) == []
    assert await spend.reopen(home.app.pool, []) == []


@pytest.mark.contract("C-64", "C-71")
async def test_a_cap_that_an_operator_has_raised_opens_the_type_on_the_same_day(
    make_lane: MakeLane, role_dsn: Callable[[str], str]
) -> None:
    home = await priced(make_lane, daily_spend_cap="0.001")
    await home.sent(1)
    await home.collected()
    assert (await home.type())["pause_reason"] == "SPEND_CAP"

    policy = home.app.types.get(TYPE).policy
    worker, operator = await asyncpg.connect(role_dsn(WORKER)), await asyncpg.connect(role_dsn(OPERATOR))

    async def reopened(cap: str, synced_by: asyncpg.Connection[Any]) -> list[str]:
        asked = replace(policy, daily_spend_cap=cap)
        await types.sync(synced_by, [asked])
        return await spend.reopen(worker, [asked])

    assert await reopened("0.003", synced_by=worker) == [], "the stored cap counts, and a worker does not raise it"
    assert await reopened("0.002", synced_by=operator) == [], "0.00225 were spent"
    assert await reopened("0.003", synced_by=operator) == [TYPE]
    await worker.close()
    await operator.close()


async def test_a_single_call_is_counted_like_an_item_at_the_full_price(make_lane: MakeLane) -> None:
    home = await make_home(make_lane)
    route = Route("acme", "small", "fake", execution=Execution.ASYNC, target_locale="es-ES")
    prices = load_prices(TABLE)

    paused = [
        await spend.record(home.app.pool, TYPE, route, USED, Execution.ASYNC, prices=prices, cap=5000) for _ in range(2)
    ]

    assert paused == [False, True]
    (row,) = await home.owner.fetch("select calls, cost_micros, execution from penstock.spend")
    assert tuple(row) == (2, 9000, "async")


@pytest.mark.contract("C-64")
async def test_an_item_that_was_refused_or_cut_off_costs_what_it_used(make_lane: MakeLane) -> None:
    def refused(batch: FakeBatch) -> list[ItemResult]:
        (asked,) = batch.requests()
        line = error(asked["custom_id"], FailureClass.POLICY_REJECTED, retryable=False)
        return [replace(line, usage=USED)]

    home = await priced(make_lane)
    home.provider.lines = refused
    await home.sent(1)

    await home.collected()

    (item,) = await home.items()
    assert (item["state"], item["input_tokens"], item["output_tokens"], item["cost_micros"]) == (
        "failed", USED.input_tokens, USED.output_tokens, 2250,
    )  # fmt: skip
    assert await home.owner.fetchval("select cost_micros from penstock.spend") == 2250


@pytest.mark.contract("C-64")
async def test_a_single_call_that_was_refused_or_cut_off_costs_what_it_used(make_lane: MakeLane) -> None:
    def refuse(_request: Request) -> Answer:
        raise Failed(FailureClass.POLICY_REJECTED, usage=USED)

    home = await priced(make_lane)
    home.provider.answer = refuse
    await home.fill(1, execution="async")

    await home.submitted()

    assert await home.statuses() == {"failed": 1}
    (row,) = await home.owner.fetch("select calls, input_tokens, execution from penstock.spend")
    assert tuple(row) == (1, USED.input_tokens, "async")


@pytest.mark.contract("C-64")
async def test_a_worker_opens_its_types_again_when_their_day_is_over(dsn: str) -> None:
    app = Penstock(dsn, grace_seconds=5, poll_seconds=0.05)

    @app.job("asks", daily_spend_cap="1")
    async def asks() -> None: ...

    async with app:
        await app.sync_types()
        await types.pause(app.pool, "asks", who="penstock", why="SPEND_CAP")
        job_id = await app.enqueue("asks", {})
        worker = app.worker(["asks"], name="w", insecure=True)
        running = asyncio.create_task(worker.run())
        await worker.ready.wait()
        async with asyncio.timeout(10):
            while await app.pool.fetchval("select status from penstock.jobs where job_id = $1", job_id) != "completed":
                await app.pool.execute("select pg_sleep(0.02)")
        worker.stop()
        await running
