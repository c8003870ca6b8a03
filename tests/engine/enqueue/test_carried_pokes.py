"""A single enqueue may carry the poke of those before it; whatever becomes of it, they are poked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.contract.errors import IdempotencyKeyReused
from penstock.engine.pokes import Carried, Pokes
from tests.engine.enqueue.conftest import Office

CHANNEL = "penstock_jobs"
SECONDS = 0.005
PAUSE = 1.2 * SECONDS  # past the pause between two pokes, and before one that waits goes by itself


class Loop:
    """Pokes under a clock that the test winds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, str]] = []
        self.pokes = Pokes(self._notify, SECONDS)
        self.now = asyncio.get_running_loop().time()
        loop = asyncio.get_running_loop()
        stopped: Callable[[], float] = lambda: self.now  # noqa: E731 - a clock is a function
        monkeypatch.setattr(loop, "time", stopped)

    async def _notify(self, channel: str, job_type: str) -> None:
        self.sent.append((channel, job_type))

    async def pass_time(self, seconds: float) -> None:
        """Wind, and let everybody run who was waiting for it."""
        self.now += seconds
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.fixture
async def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


@pytest.mark.contract("C-27")
async def test_the_first_enqueue_carries_its_own_poke_and_those_right_behind_it_carry_none(loop: Loop) -> None:
    assert loop.pokes.carry(CHANNEL, "noop") is Carried.ITS_OWN
    assert loop.pokes.carry(CHANNEL, "noop") is Carried.NOTHING


@pytest.mark.contract("C-27")
async def test_in_a_stream_the_next_enqueue_pokes_for_those_before_it(loop: Loop) -> None:
    loop.pokes.carry(CHANNEL, "noop")
    loop.pokes.send(CHANNEL, "noop")

    await loop.pass_time(PAUSE)

    assert loop.pokes.carry(CHANNEL, "noop") is Carried.OTHERS_TOO
    await loop.pass_time(2 * PAUSE)
    assert loop.sent == [], "what was carried is not sent again"


@pytest.mark.contract("C-27")
async def test_without_another_enqueue_the_poke_goes_by_itself(loop: Loop) -> None:
    loop.pokes.carry(CHANNEL, "noop")
    loop.pokes.send(CHANNEL, "noop")

    await loop.pass_time(2 * PAUSE)

    assert loop.sent == [(CHANNEL, "noop")]


@pytest.mark.contract("C-27", "C-28")
async def test_an_enqueue_of_another_type_does_not_speak_for_those_before_it(loop: Loop) -> None:
    loop.pokes.carry(CHANNEL, "noop")
    loop.pokes.send(CHANNEL, "noop")
    await loop.pass_time(PAUSE)

    assert loop.pokes.carry(CHANNEL, "other") is Carried.NOTHING
    await loop.pass_time(PAUSE)
    assert loop.sent == [(CHANNEL, "noop")]


@pytest.mark.contract("C-27")
async def test_an_enqueue_that_should_have_poked_for_others_and_was_refused_pokes_all_the_same(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.app.enqueue("noop", {"n": 1}, key="k")
    await office.pokes()
    assert office.app._producer is not None
    monkeypatch.setattr(office.app._producer.pokes, "carry", lambda *_: Carried.OTHERS_TOO)

    with pytest.raises(IdempotencyKeyReused):
        await office.app.enqueue("noop", {"n": 2}, key="k")

    assert await office.pokes() == [(CHANNEL, '{"job_type": "noop"}')]
