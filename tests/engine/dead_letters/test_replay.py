"""Replay: a new job at the failed stage, once per request, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Failed, FailureClass, Job
from penstock.contract.errors import StepRefused
from penstock.engine import dead_letters
from penstock.engine.dead_letters import LetterState
from penstock.engine.replay import replay, retry
from penstock.store import alerts, jobs
from tests.engine.dead_letters.conftest import Office
from tests.support import forks
from tests.support.processes import PATIENCE


@pytest.mark.contract("C-51", "E-41", "E-42", "E-26")
async def test_a_replay_begins_at_the_failed_stage_with_the_results_of_the_others(office: Office) -> None:
    letter = await office.validated(await office.dead("notify", key="cl-7", limit_key="team", priority=3))
    original = await office.h.job((await office.letter(letter)).job_id)
    made = await replay(office.db, letter, operator="ann")

    job = await office.h.job(made)
    assert (job["status"], job["stage"], job["attempt_count"], job["claim_seq"]) == ("queued", "notify", 0, 0)
    assert job["replay_of_job_id"] == original["job_id"]
    assert job["idempotency_key"] == "review:cl-7#replay-1"
    for column in ("payload", "job_type", "limit_key", "priority", "max_attempts", "audited"):
        assert job[column] == original[column], column
    await office.h.drain()
    assert await office.h.status(made) == "completed"
    assert office.stages_called(made) == ["notify"]
    fetched = {"stage": "fetch", "changelist": 7, "by": str(original["job_id"])}
    assert office.results[-1][0] == fetched
    assert (await office.letter(letter)).state is LetterState.REPLAYING


@pytest.mark.contract("E-42")
async def test_a_full_restart_repeats_every_stage(office: Office) -> None:
    letter = await office.validated(await office.dead("notify"))
    made = await replay(office.db, letter, operator="ann", full_restart=True)
    assert await office.db.fetchval("select count(*) from penstock.stages where job_id = $1", made) == 0
    await office.h.drain()
    assert office.stages_called(made) == ["fetch", "llm", "notify"]
    assert (await dead_letters.events(office.db, letter))[-1].detail["full_restart"] is True


@pytest.mark.contract("C-51", "Q-15", "C-65")
async def test_the_failed_job_stays_as_it_was_and_keeps_its_key(office: Office) -> None:
    letter = await office.validated(await office.dead("notify", key="cl-7"))
    root = (await office.letter(letter)).job_id
    before = await office.h.job(root)
    made = await replay(office.db, letter, operator="ann")
    after = await office.h.job(root)
    changed = {name for name in after.keys() if after[name] != before[name]}  # noqa: SIM118 - a record iterates values
    assert changed == {"superseded_by_job_id", "updated_at"}
    assert after["superseded_by_job_id"] == made
    assert await office.h.enqueue("review", {"changelist": 7}, key="cl-7") == root
    assert (await office.h.trail(root))[-1]["to_status"] == "failed"


async def test_a_job_without_a_key_has_replays_without_one(office: Office) -> None:
    letter = await office.validated(await office.dead("notify"))
    made = await replay(office.db, letter, operator="ann")
    assert (await office.h.job(made))["idempotency_key"] is None


async def test_a_key_that_the_application_took_itself_does_not_block_a_replay(office: Office) -> None:
    letter = await office.validated(await office.dead("notify", key="cl-7"))
    await office.h.enqueue("review", {"changelist": 8}, key="cl-7#replay-1")
    made = await replay(office.db, letter, operator="ann")
    assert (await office.h.job(made))["idempotency_key"] == "review:cl-7#replay-2"


@pytest.mark.contract("C-51", "E-21", "C-02")
async def test_a_failed_replay_reopens_the_same_letter_and_the_next_goes_on_from_there(office: Office) -> None:
    letter = await office.validated(await office.dead("llm", FailureClass.NOT_FOUND, key="cl-7"))
    root = (await office.letter(letter)).job_id
    office.faults["notify"] = [Failed(FailureClass.NETWORK_RESET)] * 5
    first = await replay(office.db, letter, operator="ann")
    await office.h.work_until_idle()

    found = await office.letter(letter)
    assert (found.state, found.job_id, found.last_job_id) == ("open", root, first)
    assert (found.stage, found.error_class, found.attempts) == ("notify", "NETWORK_RESET", 5)
    assert (found.cause, found.remediation, found.ticket, found.replay_safe) == (None, None, None, None)
    assert found.escalated_at is None
    assert len(await office.h.dead_letters()) == 1
    assert (await dead_letters.events(office.db, letter))[-1].step == "reopened"

    second = await replay(office.db, await office.validated(letter), operator="ann")
    job = await office.h.job(second)
    assert (job["replay_of_job_id"], job["idempotency_key"]) == (root, "review:cl-7#replay-2")
    await office.h.drain()
    assert office.stages_called(first) == ["llm", *["notify"] * 5]
    assert office.stages_called(second) == ["notify"]
    assert {(await office.h.job(one))["superseded_by_job_id"] for one in (root, first)} == {second}


@pytest.mark.contract("E-45", "R-14")
async def test_the_same_class_that_no_retry_mends_escalates(office: Office) -> None:
    letter = await office.validated(await office.dead("notify", FailureClass.NOT_FOUND))
    office.faults["notify"] = [Failed(FailureClass.NOT_FOUND)]
    made = await replay(office.db, letter, operator="ann")
    await office.h.drain()
    found = await office.letter(letter)
    assert found.state is LetterState.OPEN
    assert found.escalated_at == found.last_failure_at
    raised = await alerts.find(office.db, kind="replay_failed_again")
    assert [(one.severity, one.subject) for one in raised] == [
        ("escalation", {"dead_letter_id": str(letter), "job_id": str(made), "code": "NOT_FOUND"})
    ]


@pytest.mark.contract("E-45")
@pytest.mark.parametrize("error", [FailureClass.SCHEMA_INVALID, FailureClass.NETWORK_RESET])
async def test_another_class_or_one_that_may_pass_does_not_escalate(office: Office, error: FailureClass) -> None:
    letter = await office.validated(await office.dead("notify", FailureClass.NOT_FOUND))
    office.faults["notify"] = [Failed(error)] * 5
    await replay(office.db, letter, operator="ann")
    await office.h.work_until_idle()
    assert (await office.letter(letter)).escalated_at is None
    assert await alerts.find(office.db, kind="replay_failed_again") == []


@pytest.mark.contract("C-51")
async def test_a_type_that_is_not_replayable_is_refused(office: Office) -> None:
    job = await office.h.enqueue("complaint_rewrite", {"text": "quiet please"})
    await office.h.work_until_idle()
    letter = await office.validated(await office.letter_of(job))
    with pytest.raises(StepRefused, match="never replayed"):
        await replay(office.db, letter, operator="ann")
    await office.h.enqueued("complaint_rewrite", count=1)
    await dead_letters.close(office.db, letter, "the sender wrote again", operator="ann", without_replay=True)


async def test_a_canceled_replay_leaves_the_evidence_standing_for_another(office: Office) -> None:
    letter = await office.validated(await office.dead("notify"))
    first = await replay(office.db, letter, operator="ann")
    assert await jobs.cancel(office.db, first, who="ann", why="too early") == "canceled"
    with pytest.raises(StepRefused, match="is canceled"):
        await dead_letters.close(office.db, letter, "done", operator="ann")
    second = await replay(office.db, letter, operator="ann")
    await office.h.drain()
    await dead_letters.close(office.db, letter, "done", operator="ann")
    assert await office.h.status(second) == "completed"


@pytest.mark.contract("C-51")
async def test_a_running_or_a_completed_replay_is_not_started_again(office: Office) -> None:
    letter = await office.validated(await office.dead("notify"))
    made = await replay(office.db, letter, operator="ann")
    for status in ("queued", "completed"):
        with pytest.raises(StepRefused, match=f"job {made} replays it already and is {status}"):
            await replay(office.db, letter, operator="ben")
        await office.h.drain()
    await office.h.enqueued("review", count=2)


async def test_a_stage_that_the_type_no_longer_has_asks_for_a_full_restart(office: Office) -> None:
    letter = await office.validated(await office.dead("notify"))
    await office.h.app.pool.execute("update penstock.types set stages = '{fetch,tell}' where job_type = 'review'")
    with pytest.raises(StepRefused, match="no stage 'notify' any more; ask for a full restart"):
        await replay(office.db, letter, operator="ann")
    made = await replay(office.db, letter, operator="ann", full_restart=True)
    assert (await office.h.job(made))["stage"] == "fetch"


@pytest.mark.contract("R-18")
async def test_a_plain_job_is_retried_without_further_ado(office: Office) -> None:
    office.faults["run"] = [Failed(FailureClass.NOT_FOUND), Failed(FailureClass.NOT_FOUND)]
    job = await office.h.enqueue("plain", key="one")
    await office.h.drain()
    first = await retry(office.db, job, operator="ann")
    await office.h.drain()
    second = await retry(office.db, first, operator="ann")  # by the id of the replay that failed too
    await office.h.drain()
    assert [await office.h.status(one) for one in (job, first, second)] == ["failed", "failed", "completed"]
    with pytest.raises(StepRefused, match=f"{second} is completed; only a failed job"):
        await retry(office.db, second, operator="ann")
    await dead_letters.close(office.db, await office.letter_of(job), "ran", operator="ann")


@pytest.mark.contract("E-33")
async def test_a_retry_is_no_way_around_the_steps(office: Office) -> None:
    letter = await office.dead("notify")
    with pytest.raises(StepRefused, match="triage, remediate, validate, replay, close"):
        await retry(office.db, (await office.letter(letter)).job_id, operator="ann")


@pytest.mark.contract("E-40", "C-61")
async def test_a_replay_does_not_repeat_an_effect_that_has_happened(office: Office) -> None:
    sent: list[str] = []

    @office.h.app.job("mailer", attempts=1)
    async def mailer(job: Job) -> None:
        async def send(token: str) -> str:
            sent.append(token)
            return "id-1"

        assert await job.effect("mail", perform=send) == "id-1"
        if office.faults["run"]:
            raise office.faults["run"].pop(0)

    office.faults["run"] = [Failed(FailureClass.NOT_FOUND)]
    await office.h.app.sync_types()
    job = await office.h.enqueue("mailer")
    await office.h.drain("second")
    again = await retry(office.db, job, operator="ann")
    await office.h.drain("second")
    assert await office.h.status(again) == "completed"
    assert len(sent) == 1


async def test_a_replay_wakes_the_workers(office: Office, dsn: str) -> None:
    office.faults["run"] = [Failed(FailureClass.NOT_FOUND)]
    job = await office.h.enqueue("plain")
    await office.h.drain()
    heard: asyncio.Queue[Any] = asyncio.Queue()
    listener = await asyncpg.connect(dsn)
    await listener.add_listener("penstock_jobs", lambda *poke: heard.put_nowait(json.loads(poke[3])))
    await retry(office.db, job, operator="ann")
    assert await asyncio.wait_for(heard.get(), 10) == {"job_type": "plain"}
    await listener.close()


@pytest.mark.contract("C-51")
async def test_an_operator_killed_in_the_middle_leaves_nothing_and_can_ask_again(
    office: Office, role_dsn: Callable[[str], str]
) -> None:
    letter = await office.validated(await office.dead("notify", key="cl-7"))
    before = await office.letter(letter)
    assert await _replay_in_a_process(role_dsn, letter, crash_at="before_replay_commit") == -signal.SIGKILL
    assert await office.letter(letter) == before
    await office.h.enqueued("review", count=1)

    assert await _replay_in_a_process(role_dsn, letter) == 0
    with pytest.raises(StepRefused, match="replays it already"):
        await replay(office.db, letter, operator="ann")
    await office.h.drain()
    assert [row["status"] for row in await office.h.enqueued("review", count=2)] == ["failed", "completed"]


async def _replay_in_a_process(role_dsn: Callable[[str], str], letter: UUID, crash_at: str = "") -> int:
    script = Path(__file__).with_name("replay_once.py")
    environment = {**os.environ, "PENSTOCK_CRASH_AT": crash_at}
    command = [str(script), role_dsn("penstock_operator"), str(letter)]
    done = await asyncio.to_thread(forks.run, command, env=environment, timeout=PATIENCE, stderr=None)
    return done.returncode
