"""A job that takes its process along, every time."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.desk import Desk


@pytest.mark.contract("C-13", "C-02")
def test_a_job_that_kills_its_worker_ends_as_a_dead_letter_and_the_others_go_on(desk: Desk) -> None:
    """Fault 43: a SIGKILL from the inside is what the kernel sends when memory runs out."""
    types = ("--types", "poison,noop", "--concurrency", "1")
    first = desk.worker(*types).ready()
    poison = desk.put("poison")
    others = [desk.put("noop", {"n": n}) for n in range(20)]
    assert first.ended() == -signal.SIGKILL
    desk.pass_time(minutes=6)
    assert desk.worker(*types).ended() == -signal.SIGKILL
    desk.pass_time(minutes=6)

    last = desk.worker(*types).ready()
    desk.until(lambda: {desk.status(job_id) for job_id in others} == {"completed"})
    desk.until(lambda: desk.status(poison) == "failed")

    assert last.stop() == 0
    letter = desk.row("select reason, attempts from penstock.dead_letters where job_id = %s", poison)
    assert (letter["attempts"], desk.job(poison)["claim_seq"]) == (2, 2)
