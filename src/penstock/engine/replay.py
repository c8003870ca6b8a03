"""Replay: the failed work once more, as a new job (C-51, E-41, E-42).

The failed row is never reopened: terminal statuses absorb. The new job has the
original's payload and root id, so its outside effects keep their keys and
tokens, and it starts at the stage that failed with a fresh budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.contract import dead_letters as rules
from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import StepRefused
from penstock.contract.keys import uuid7
from penstock.engine.dead_letters import operator_name
from penstock.store import dead_letters as store
from penstock.store import jobs
from penstock.telemetry import events

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.store.claims import Db


async def replay(
    db: Db, dead_letter_id: UUID, *, operator: str, full_restart: bool = False, notify: bool = True
) -> UUID:
    """Start a dead letter again and return the new job; begins at the failed stage unless *full_restart*.

    All of it is one transaction under the letter's lock: a crash leaves
    either nothing or a replay that a second request is refused for. Of two
    operators at once one starts it and the other is told which job runs.
    """
    who = operator_name(operator)
    async with store.locked(db, dead_letter_id) as (tx, letter):
        rules.may_replay(letter, full_restart=full_restart)
        started = await store.start_replay(tx, letter, uuid7(), full_restart=full_restart, operator=who)
        if notify and started.channel is not None:
            await jobs.poke(tx, started.channel, started.job_type)  # goes out with the commit
        passing(CrashPoint.BEFORE_REPLAY_COMMIT)
    events.replay_started(dead_letter_id, letter.job_id, started.job_id, started.stage)
    return started.job_id


async def retry(db: Db, job_id: UUID, *, operator: str, full_restart: bool = False, notify: bool = True) -> UUID:
    """Replay a failed job of a plain type without further ado, by its own id or that of a failed replay of it.

    A type that asks for the five steps is refused: its dead letter must be
    worked through.
    """
    job = await jobs.get(db, job_id)
    dead_letter_id = await store.of_job(db, job_id)
    if job["status"] != "failed" or dead_letter_id is None:
        raise StepRefused(f"job {job_id} is {job['status']}; only a failed job can be retried")
    rules.may_retry(await store.get(db, dead_letter_id))
    return await replay(db, dead_letter_id, operator=operator, full_restart=full_restart, notify=notify)
