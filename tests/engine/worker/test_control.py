"""Messages on the control channel are pokes: any login can send one, and none is believed."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from penstock.contract.claims import Caps, Trigger
from penstock.engine import control
from penstock.engine.bounded import BoundedRun, TimedRun
from penstock.engine.paced import Paced
from penstock.store import claims as store
from penstock.store import types as type_store
from penstock.store.alerts import next_unannounced

if TYPE_CHECKING:
    from tests.engine.worker.conftest import Floor

FORGE = "select pg_notify('penstock_control', $1)"


class Held:
    """A handler that waits, and says when it is stopped."""

    def __init__(self, floor: Floor) -> None:
        self.entered, self.stopped, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.runs = 0
        floor.app.job("held")(self._run)

    async def _run(self) -> None:
        self.runs += 1
        self.entered.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise


@pytest.fixture
def held(floor: Floor) -> Held:
    return Held(floor)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[int]:
    """How many claims each look at canceled jobs was about, as they happen."""
    seen: asyncio.Queue[int] = asyncio.Queue()
    gone = store.gone

    async def counted(db: Any, worker: str, claims: Any) -> Any:
        answer = await gone(db, worker, claims)
        seen.put_nowait(len(claims))
        return answer

    monkeypatch.setattr(store, "gone", counted)
    return seen


def cancel(job_id: UUID) -> str:
    return json.dumps({"cancel": str(job_id)})


@pytest.mark.contract("Q-16", "Q-48", "C-68")
async def test_a_forged_cancel_stops_nothing_and_costs_no_attempt(
    floor: Floor, held: Held, looks: asyncio.Queue[int]
) -> None:
    """Three of them used to make a dead letter of a healthy job."""
    job_id = await floor.app.enqueue("held")
    async with floor.working() as worker, asyncio.timeout(20):
        await held.entered.wait()
        for _ in range(3):
            await floor.owner.execute(FORGE, cancel(job_id))
            assert await looks.get() == 1
        assert not held.stopped.is_set()
        held.go_on.set()
        await worker.settle()
    row = await floor.job(job_id)
    assert (row["status"], row["attempt_count"], row["reclaim_count"], row["claim_seq"]) == ("completed", 0, 0, 1)
    assert held.runs == 1


@pytest.mark.contract("C-06", "C-31")
async def test_a_message_about_a_job_that_another_worker_has_by_now_stops_the_handler(floor: Floor, held: Held) -> None:
    job_id = await floor.app.enqueue("held")
    async with floor.working() as worker, asyncio.timeout(20):
        await held.entered.wait()
        await floor.owner.execute("update penstock.jobs set claimed_by = 'other', claim_seq = 2")
        await floor.owner.execute(FORGE, cancel(job_id))
        await held.stopped.wait()
        await worker.settle()
    assert (await floor.job(job_id))["claimed_by"] == "other"


@pytest.mark.contract("Q-48", "D-40")
async def test_a_flood_of_messages_about_a_job_is_answered_by_a_few_looks(
    floor: Floor, held: Held, looks: asyncio.Queue[int]
) -> None:
    job_id = await floor.app.enqueue("held")
    async with floor.working() as worker, asyncio.timeout(60):
        await held.entered.wait()
        await floor.owner.execute(  # no two are equal: the server drops equal ones of one transaction
            "select pg_notify('penstock_control', json_build_object('cancel', $1::text, 'n', n)::text) "
            "from generate_series(1, 20000) as n",
            str(job_id),
        )
        await floor.owner.execute("select penstock.cancel($1, 'test', null)", job_id)
        await held.stopped.wait()  # behind the flood, and still heard
        await worker.settle()
    assert looks.qsize() < 100
    assert (await floor.job(job_id))["status"] == "canceled"


@pytest.mark.contract("Q-48")
@pytest.mark.parametrize("kind", ["gates", "alerts"])
async def test_a_flood_of_other_messages_makes_a_few_looks_as_well(
    floor: Floor, held: Held, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0
    module, name, real = {
        "gates": ("penstock.store.types", "gates", type_store.gates),
        "alerts": ("penstock.store.alerts", "next_unannounced", next_unannounced),
    }[kind]

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return real(*arguments)  # type: ignore[operator]  # two functions of different arguments

    job_id = await floor.app.enqueue("held")
    async with floor.working() as worker, asyncio.timeout(60):
        await held.entered.wait()
        monkeypatch.setattr(f"{module}.{name}", counted)
        await floor.owner.execute(
            "select pg_notify('penstock_control', json_build_object($1::text, n)::text) "
            "from generate_series(1, 20000) as n",
            kind,
        )
        await floor.owner.execute("select penstock.cancel($1, 'test', null)", job_id)
        await held.stopped.wait()
        await worker.settle()
    assert 1 <= count < 200


@pytest.mark.contract("Q-48", "D-40")
async def test_what_many_messages_ask_for_is_done_at_once_and_then_once_for_all_of_them() -> None:
    acts: asyncio.Queue[float] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    paced = Paced(lambda: acts.put_nowait(loop.time()), 0.1)
    for _ in range(1000):
        paced.ask()
    assert acts.qsize() == 1
    first, second = await acts.get(), await acts.get()
    assert second - first >= 0.1
    paced.close()
    assert acts.empty()


@pytest.mark.contract("Q-48")
@pytest.mark.parametrize(
    "payload",
    ["", "{", "[" * 4000, "null", "[1]", '"cancel"', '{"cancel": null}', '{"cancel": 7}', '{"cancel": "x"}',
     '{"cancel": ["' + "a" * 100 + '"]}', '{"cancel": "' + str(uuid4()) + '", "x": "' + "x" * 7000 + '"}'],
)  # fmt: skip
def test_a_message_that_is_not_ours_asks_for_nothing(payload: str) -> None:
    assert control.read(payload) == control.Message()


@pytest.mark.contract("Q-16", "C-06")
async def test_a_bounded_run_looks_before_it_stops_a_handler_as_well(
    floor: Floor, held: Held, looks: asyncio.Queue[int]
) -> None:
    kept, canceled = [await floor.app.enqueue("held") for _ in range(2)]
    run = TimedRun("test", Trigger.ADMIN, Caps(10, timedelta(minutes=1)))
    types = [floor.app.types.get("held")]
    crew = BoundedRun(floor.dsn, types, floor.app.settings, run, overflow=timedelta(seconds=60), insecure=True)
    await crew.open()
    async with asyncio.timeout(20):
        working = asyncio.create_task(crew.work())
        await floor.until("count(*) = 2 from penstock.jobs where status = 'processing'")
        await held.entered.wait()
        await floor.owner.execute(FORGE, cancel(kept))
        assert await looks.get() == 1
        assert not held.stopped.is_set()
        await floor.owner.execute("select penstock.cancel($1, 'test', null)", canceled)
        await held.stopped.wait()
        held.go_on.set()
        await working
        await crew.close()
    assert [(await floor.job(job_id))["status"] for job_id in (kept, canceled)] == ["completed", "canceled"]
