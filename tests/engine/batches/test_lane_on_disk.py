"""A whole lane in one process, with the real adapter: where the text of its users has been meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from bench.lane import emulated, one_pass, texts_in
from bench.lane_pass import Order


@pytest.mark.contract("A-83")
async def test_no_text_of_a_lane_touches_the_disk_or_a_table_of_ours(dsn: str) -> None:
    """The application stores every answer in a table of its own; nothing else may hold a word of it."""
    with emulated(20_000) as emulator:
        order = Order(dsn, emulator.url, jobs=300, groups=3, persists=True, alone=False)
        passed = await asyncio.to_thread(one_pass, order)
    assert (passed.completed, passed.batches) == (300, 3)
    assert passed.written == []
    assert not passed.temporary_touched
    assert await texts_in(dsn) == {}
