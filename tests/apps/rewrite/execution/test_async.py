"""Async routes: the same code asks at once, and the unit is locked for as long as its call takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from penstock.apps.rewrite.locks import UnitLocks
from penstock.apps.rewrite.router import RoutingTable, load_table
from penstock.contract.calls import Answer, Request, Usage
from penstock.contract.errors import Snooze
from penstock.providers.port import BatchLimits
from penstock.store.roles import WORKER
from tests.apps.rewrite.conftest import ROUTE, MakeWorld, Sent, World
from tests.apps.rewrite.rewriter import KINDLY

DONE = ("completed", "completed", None)
TRY = "select pg_try_advisory_lock(rewrite.unit_lock($1, $2))"
LOCKS = "penstock rewrite locks"


@dataclass
class Gate:
    """An adapter whose calls wait until somebody opens."""

    kind: str = "openai_responses"
    provider: str = "openai"
    supports_micro_batch: bool = False
    limits: BatchLimits | None = None
    asked: list[Request] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    crowd: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(1))
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, request: Request, *, seconds: float) -> Answer:
        """Wait, then answer kindly."""
        del seconds
        self.asked.append(request)
        self.came.set()
        await self.crowd.wait()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        language = request.route.target_locale
        return Answer("{}", {"rewritten_text": KINDLY[language], "output_locale": language}, Usage(1, 1))

    async def close(self) -> None:
        """Nothing to close."""


def unit(sent: Sent) -> tuple[Any, Any]:
    """What its lock is made of."""
    return sent.request_id, sent.home.recipient


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    """A world that asks at once."""
    made: World = await make_world({"execution_mode": "async"})
    return made


@pytest.fixture
def gate(world: World) -> Gate:
    """The only adapter there is."""
    made = Gate()
    world.worker.app.use_adapters({"openai_responses": lambda _url: made})
    return made


@asynccontextmanager
async def running(world: World, gate: Gate) -> AsyncIterator[None]:
    """A run of the submitter whose first call waits at the gate; it opens when the block ends."""
    run = asyncio.create_task(world.run_submitter())
    await asyncio.wait_for(gate.came.wait(), 10)
    try:
        yield
    finally:
        gate.opened.set()
        await run


@pytest.mark.contract("Q-72", "C-04")
async def test_an_async_route_makes_one_call_for_each_job_and_the_default_is_the_batch(world: World) -> None:
    sents = [await world.send(await world.home("en", code)) for code in ("en", "es", "de")]
    await world.run_submitter()

    assert await world.ends() == [DONE] * 3
    assert [call.path for call in world.emulator.calls] == ["/openai/v1/responses"] * 3
    for sent in sents:
        output = await world.output(sent)
        assert output is not None
        assert sent.echo in output.rewritten_text
        assert await world.trail(sent) == ["queued", "processing", "completed"]
    assert load_table(None).default.execution_mode == "batch"


@pytest.mark.contract("A-39", "C-30", "L-46")
async def test_nobody_else_gets_the_lock_of_a_unit_while_its_call_is_under_way(world: World, gate: Gate) -> None:
    sent = await world.send(await world.home())
    async with running(world, gate):
        assert (await world.job(sent))["status"] == "processing"
        assert await world.owner.fetchval(TRY, *unit(sent)) is False

    assert await world.ends() == [DONE]
    assert await world.owner.fetchval(TRY, *unit(sent)) is True


@pytest.mark.contract("A-39", "L-47")
async def test_a_claim_takes_the_lock_first_and_leaves_a_busy_unit_waiting(world: World, gate: Gate) -> None:
    gate.opened.set()
    home = await world.home()
    busy, free = await world.send(home), await world.send(home)
    await world.owner.fetchval(TRY, *unit(busy))
    done = await world.run_submitter()

    assert done.run is not None
    assert (done.run.claimed, len(gate.asked)) == (1, 1)
    assert await world.ends(busy, free) == [("queued", "queued", None), DONE]
    assert await world.trail(busy) == ["queued"]
    await world.owner.execute("select pg_advisory_unlock_all()")
    await world.run_submitter()
    assert await world.ends(busy) == [DONE]


@pytest.mark.contract("A-59", "L-46")
async def test_two_units_of_one_home_are_under_way_at_the_same_time(world: World, gate: Gate) -> None:
    gate.crowd = asyncio.Barrier(3)  # both calls and this test: nobody gets on before all are there
    home = await world.home()
    for _ in range(2):
        await world.send(home)
    async with running(world, gate):
        await asyncio.wait_for(gate.crowd.wait(), 10)
        assert await world.ends() == [("processing", "queued", None)] * 2

    assert await world.ends() == [DONE] * 2


@pytest.mark.contract("C-26", "C-30")
async def test_a_lock_that_is_busy_before_the_call_puts_the_job_back_for_a_minute_uncharged(
    world: World, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await world.send(await world.home())
    payload = world.worker.execution.payload

    async def taken_meanwhile(*arguments: Any) -> Any:
        await world.owner.fetchval(TRY, *unit(sent))
        return await payload(*arguments)

    monkeypatch.setattr(world.worker.execution, "payload", taken_meanwhile)
    before = await world.owner.fetchval("select penstock.now()")
    done = await world.run_submitter()

    row = await world.job(sent)
    assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("queued", 0, None)
    assert 59 <= (row["run_at"] - before).total_seconds() <= 70
    assert done.run is not None
    assert (done.run.requeued, gate.asked) == (1, [])


@pytest.mark.contract("C-30")
async def test_losing_the_connection_of_the_locks_cancels_the_calls(
    world: World, gate: Gate, role_dsn: Callable[[str], str]
) -> None:
    sent = await world.send(await world.home())
    same_role = await asyncpg.connect(role_dsn(WORKER))
    async with running(world, gate):
        await same_role.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 "
            "and datname = current_database()",
            LOCKS,
        )
        await asyncio.wait_for(gate.given_up.wait(), 10)
    await same_role.close()

    assert await world.ends(sent) == [("queued", "queued", "NETWORK_RESET")]
    assert (await world.job(sent))["attempt_count"] == 1
    await world.pass_time(minutes=15)
    await world.run_submitter()
    assert (await world.ends(sent))[0][:2] == DONE[:2]


async def test_two_tasks_of_one_process_exclude_each_other_although_they_share_a_session(world: World) -> None:
    locks: UnitLocks = world.worker.locks
    one, other = (uuid4(), uuid4()), (uuid4(), uuid4())
    async with locks.held(one), locks.held(other):
        with pytest.raises(Snooze):
            async with locks.held(one):
                raise AssertionError("in twice")
    async with locks.held(one):
        assert await world.owner.fetchval(TRY, *one) is False
    assert await world.owner.fetchval(TRY, *one) is True


async def test_a_lock_is_given_back_whatever_ends_the_call(world: World) -> None:
    one = uuid4(), uuid4()
    with pytest.raises(ValueError, match="broken"):
        async with world.worker.locks.held(one):
            raise ValueError("broken")

    async def forever() -> None:
        async with world.worker.locks.held(one):
            inside.set()
            await asyncio.Event().wait()

    inside = asyncio.Event()
    task = asyncio.create_task(forever())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await world.owner.fetchval(TRY, *one) is True


async def test_a_database_without_a_lock_to_give_costs_a_minute_and_no_attempt(world: World) -> None:
    async def nowhere() -> str:
        return "postgresql://nobody@127.0.0.1:1/nowhere"

    with pytest.raises(Snooze):
        async with UnitLocks(nowhere).held((uuid4(), uuid4())):
            raise AssertionError("without a lock")


@pytest.mark.contract("Q-34")
async def test_a_kind_of_adapter_that_nobody_has_is_a_mistake_of_the_configuration(world: World) -> None:
    table = {"default": {**ROUTE, "adapter_kind": "telepathy", "execution_mode": "async"}}
    world.orchestrator.table = RoutingTable.model_validate(table)
    sent = await world.send(await world.home())
    await world.run_submitter()

    assert await world.ends(sent) == [("failed", "failed", "CONFIG_INVALID")]
    assert world.asked() == 0
