"""The first job of a session after a pause takes its poke along with the commit, and holds nobody up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from tests.engine.enqueue.conftest import Office

NOOP = ("penstock_jobs", '{"job_type": "noop"}')


@pytest.fixture
async def known(office: Office, session: AsyncSession) -> Office:
    """An office that knows where the type is poked, and whose channel is at rest."""
    await office.app.enqueue("noop", {"n": 0}, connection=session)
    await session.commit()
    assert await office.pokes() == [NOOP]
    return office


@pytest.mark.contract("C-27", "D-33", "D-37")
async def test_the_first_job_of_a_session_after_a_pause_carries_its_poke_to_the_commit(
    known: Office, session: AsyncSession, told: list[bool]
) -> None:
    async with session.begin_nested():
        await known.app.enqueue("noop", {"n": 1}, connection=session)
    assert told == [True]
    assert await known.pokes() == [], "a savepoint is no commit"

    await session.commit()

    assert await known.pokes() == [NOOP]


@pytest.mark.contract("C-27", "D-33")
async def test_a_session_that_rolls_back_takes_the_poke_it_carried_back(
    known: Office, session: AsyncSession, told: list[bool]
) -> None:
    await known.app.enqueue("noop", {"n": 1}, connection=session)
    await session.rollback()

    assert told == [True]
    assert await known.pokes() == []
    assert await known.count() == 1


@pytest.mark.contract("C-27")
async def test_a_session_that_takes_its_time_holds_up_nobody_elses_poke(
    known: Office, session: AsyncSession, told: list[bool]
) -> None:
    await known.app.enqueue("noop", {"n": 1}, connection=session)

    await known.app.enqueue("noop", {"n": 2})

    assert told[0]
    async with asyncio.timeout(10):
        assert await known.ear.next() == NOOP
    await session.commit()
    assert NOOP in await known.pokes()


@pytest.mark.contract("C-27")
async def test_in_a_burst_of_sessions_only_the_first_carries_a_poke(
    known: Office, session: AsyncSession, told: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert known.app._producer is not None
    monkeypatch.setattr(known.app._producer.pokes, "_seconds", 1.0)
    for n in range(3):
        await known.app.enqueue("noop", {"n": n}, connection=session)
        await session.commit()

    assert told == [True, False, False]
    assert await known.pokes() == [NOOP, NOOP], "one for the first, one for the rest"


@pytest.mark.contract("C-27")
async def test_a_session_that_commits_in_two_phases_carries_nothing(
    known: Office, session: AsyncSession, told: list[bool]
) -> None:
    sync: Any = session.sync_session
    sync.twophase = True

    await known.app.enqueue("noop", {"n": 1}, connection=session)

    assert told == [False]
