"""A connection that is lost right behind an answer: what was answered stays true, and the next caller has another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from penstock.store import connect, jobs
from penstock.store.kept import Kept
from penstock.store.silence import Wary, bare, usable

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock import Penstock
    from tests.engine.enqueue.conftest import Office


@pytest.fixture
def lost_after_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on each connection is lost in the moment in which its COMMIT has been answered."""
    execute = Wary.execute

    async def lost(self: Wary, query: str, *arguments: Any, **options: Any) -> str:
        status = await execute(self, query, *arguments, **options)
        if query == "COMMIT;":
            self.terminate()
        return status

    return lambda: monkeypatch.setattr(Wary, "execute", lost)


async def in_a_transaction(app: Penstock) -> None:
    async with app.transaction() as tx:
        await tx.execute("select 1")
        await app.enqueue("noop", {"n": 1})


async def in_a_bulk(app: Penstock) -> None:
    await app.enqueue_many("noop", [{"n": 1}])


@pytest.mark.contract("C-65", "C-53")
@pytest.mark.parametrize("way", [in_a_transaction, in_a_bulk])
async def test_a_commit_is_no_failure_because_its_connection_is_lost_behind_the_answer(
    office: Office, lost_after_commit: Callable[[], None], way: Any
) -> None:
    """The pool empties the wrapping of such a connection, and to ask it is an `AttributeError`."""
    await office.app.enqueue("other", {})
    lost_after_commit()
    async with asyncio.timeout(20):
        await way(office.app)
        await way(office.app)
    assert await office.count("noop") == 2


@pytest.mark.contract("C-65")
@pytest.mark.parametrize("statement", ["put", "put_plain", "put_again"])
async def test_a_job_is_in_although_its_connection_is_lost_behind_the_answer(
    office: Office, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(jobs, statement)
    calls: list[str] = []

    async def answered_and_lost(connection: Any, *arguments: Any, **options: Any) -> Any:
        answer = await real(connection, *arguments, **options)
        calls.append(statement)
        bare(connection).terminate()
        return answer

    async def cut(*_: Any, **__: Any) -> Any:
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    await office.app.enqueue("noop", {"n": 0})  # its channel is known from now on
    monkeypatch.setattr(jobs, statement, answered_and_lost)
    if statement == "put_again":
        monkeypatch.setattr(jobs, "put", cut)
        monkeypatch.setattr(jobs, "put_plain", cut)
    async with asyncio.timeout(20):
        for n in range(1, 8):
            await office.app.enqueue("noop", {"n": n}, key=None if statement == "put_plain" else str(n))
    assert calls
    assert await office.count("noop") == 8


@pytest.mark.contract("C-48")
async def test_a_connection_lost_while_it_rested_is_no_error_of_the_next_transaction(office: Office) -> None:
    producer = office.app._producer
    assert producer is not None
    await in_a_transaction(office.app)
    assert producer._idle
    for resting in producer._idle:
        bare(resting).terminate()
        assert not usable(resting)
    await in_a_transaction(office.app)
    assert await office.count("noop") == 2


@pytest.mark.contract("C-48")
async def test_a_transaction_that_committed_is_no_failure_because_its_connection_cannot_be_reset(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(self: Wary, **_: Any) -> None:
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    monkeypatch.setattr(Wary, "reset", cut)
    await in_a_transaction(office.app)
    producer = office.app._producer
    assert producer is not None
    assert not producer._idle, "nobody gets what could not be reset"
    assert await office.count("noop") == 1


@pytest.mark.contract("C-31")
async def test_claims_are_kept_although_their_connection_is_lost_behind_the_answer(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = await connect.create_pool(office.dsn, size=2, answer_within=5)
    kept = Kept(pool, answer_within=5)
    await kept.fetch("select 1")
    fetch = Wary.fetch

    async def answered_and_lost(self: Wary, *arguments: Any) -> Any:
        rows = await fetch(self, *arguments)
        self.terminate()
        return rows

    monkeypatch.setattr(Wary, "fetch", answered_and_lost)
    rows = await kept.fetch("select 7 as n")
    assert rows[0]["n"] == 7
    monkeypatch.undo()
    assert (await kept.fetch("select 8 as n"))[0]["n"] == 8
    await kept.give_back()
    await pool.close()


@pytest.mark.contract("C-27", "D-34")
async def test_a_poke_that_was_lost_with_its_connection_is_sent_again(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is in; without the poke it would wait for the poll."""
    producer = office.app._producer
    assert producer is not None
    real = producer.pokes._notify
    lost: list[str] = []

    async def lost_once(channel: str, job_type: str) -> None:
        if not lost:
            lost.append(channel)
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        await real(channel, job_type)

    monkeypatch.setattr(producer.pokes, "_notify", lost_once)
    await office.app.enqueue_many("noop", [{"n": 1}])
    await producer.pokes.flush()
    assert ("penstock_jobs", '{"job_type": "noop"}') in await office.ear.all()
    assert lost
