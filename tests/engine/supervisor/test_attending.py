"""A worker process and its supervisor: the line between them, from the worker's end."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

from penstock.engine import process


class Told:
    """Stands for a worker that has started."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.ready.set()
        self.reasons: list[str] = []

    def stop(self, reason: str) -> None:
        """Remember why."""
        self.reasons.append(reason)


async def test_a_worker_whose_supervisor_died_before_it_was_ready_stops_all_the_same() -> None:
    ours, theirs = socket.socketpair()
    theirs.shutdown(socket.SHUT_RD)  # it hears nothing any more, and is about to be gone
    worker = Told()
    attending = asyncio.create_task(process._attend(ours, cast("Any", worker)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert (attending.done(), worker.reasons) == (False, [])

    theirs.close()

    async with asyncio.timeout(10):
        await attending
    assert worker.reasons == ["supervisor gone"]
    ours.close()
