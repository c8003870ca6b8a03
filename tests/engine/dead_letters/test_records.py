"""What a dead letter records about the failure it stands for."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from penstock import Failed, FailureClass, Job
from penstock.engine import dead_letters
from tests.engine.dead_letters.conftest import Office

CANARIES = ("sk-live-4f9aQ2mX81zzTop", "maria.lopez@example.org", "the kitchen is never clean and I am tired of it")


async def rows(office: Office, statement: str, *arguments: Any) -> list[asyncpg.Record]:
    return await office.db.fetch(statement, *arguments)


@pytest.mark.contract("E-27", "E-29", "E-32", "C-02", "R-18")
async def test_a_dead_letter_has_every_field_of_its_failure(office: Office) -> None:
    job_id = await office.h.enqueue("review", {"changelist": 7})
    office.faults["llm"] = [
        Failed(FailureClass.UPSTREAM_5XX, upstream_status=503),
        Failed(FailureClass.UPSTREAM_5XX, upstream_status=503),
        Failed(FailureClass.AUTH_DENIED, upstream_status=401),
    ]
    await office.h.drain()
    first = (await office.h.job(job_id))["last_error_at"]
    await office.h.work_until_idle()

    letter = await office.letter(await office.letter_of(job_id))
    assert (letter.job_type, letter.stage, letter.error_class) == ("review", "llm", "AUTH_DENIED")
    assert (letter.retryable, letter.reason, letter.attempts) == (False, "non_retryable", 3)
    assert letter.error_class in set(FailureClass)
    assert letter.first_failure_at == first
    assert letter.last_failure_at - first >= timedelta(seconds=120)
    assert (letter.state, letter.replay_count, letter.escalated_at) == ("open", 0, None)
    context = letter.sanitized_context
    assert context["job_id"] == str(job_id)
    assert (context["stage"], context["attempt_count"], context["max_attempts"]) == ("llm", 3, 5)
    assert context["upstream_status"] == 401
    assert len(context["payload_hash"]) == 16
    assert context["run_id"]
    nullable = await rows(
        office,
        "select column_name from information_schema.columns where table_schema = 'penstock' "
        "and table_name = 'dead_letters' and is_nullable = 'YES'",
    )
    assert not {row[0] for row in nullable} & {
        "error_class", "last_stack", "sanitized_context", "first_failure_at", "last_failure_at", "stage",
    }  # fmt: skip


@pytest.mark.contract("E-28", "E-31", "C-52")
async def test_the_stack_names_the_exception_and_masks_what_it_says(office: Office) -> None:
    secret, email, _ = CANARIES
    office.faults["fetch"] = [KeyError(f"api_key={secret} of {email}") for _ in range(5)]
    job_id = await office.h.enqueue("review", {"changelist": 7})
    await office.h.work_until_idle()

    letter = await office.letter(await office.letter_of(job_id))
    assert "KeyError" in letter.last_stack
    assert "conftest.py" in letter.last_stack
    assert "[secret]" in letter.last_stack
    job = await office.h.job(job_id)
    assert "KeyError" in job["last_error_message"]
    for text in (letter.last_stack, job["last_error_message"]):
        assert secret not in text
        assert email not in text


@pytest.mark.contract("E-30", "C-52", "Q-81")
async def test_no_log_and_no_table_of_errors_keeps_what_a_person_wrote(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    secret, email, text = CANARIES
    caplog.set_level(logging.INFO, logger="penstock")
    with capture_logs() as lines:
        await office.h.enqueue("complaint_rewrite", {"text": text, "token": secret, "to": email}, key=email)
        await office.h.work_until_idle()
        office.faults["run"] = [RuntimeError(f'"{text}" for {email} with {secret}') for _ in range(4)]
        await office.h.enqueue("plain", {"text": text})
        await office.h.work_until_idle()

    assert {"job_claimed", "job_failed"} <= {line["event"] for line in lines}
    assert not [canary for canary in CANARIES if canary in str(lines)]
    assert len(await office.h.dead_letters()) == 2
    for table in ("dead_letters", "dead_letter_events", "alerts", "job_events", "runs"):
        stored = json.dumps([dict(row) for row in await rows(office, f"select * from penstock.{table}")], default=str)
        assert not [canary for canary in CANARIES if canary in stored], table
    for row in await rows(office, "select last_error_code, last_error_message from penstock.jobs"):
        assert not [canary for canary in CANARIES if canary in row["last_error_message"]]


@pytest.mark.contract("C-52")
async def test_a_type_with_private_text_keeps_codes_and_frames_only(office: Office) -> None:
    job_id = await office.h.enqueue("complaint_rewrite", {"text": "please be quiet"})
    await office.h.work_until_idle()
    letter = await office.letter(await office.letter_of(job_id))
    assert "ValueError" in letter.last_stack
    assert "cannot rewrite" not in letter.last_stack
    assert "quiet" not in letter.last_stack


@pytest.mark.contract("E-21", "E-23", "E-24", "E-25", "E-26")
async def test_an_exhausted_stage_dies_of_its_own_attempts(office: Office) -> None:
    office.faults["fetch"] = [Failed(FailureClass.NETWORK_TIMEOUT)] * 4
    office.faults["llm"] = [Failed(FailureClass.RATE_LIMITED)] * 5
    job_id = await office.h.enqueue("review", {"changelist": 7})
    await office.h.work_until_idle()

    letter = await office.letter(await office.letter_of(job_id))
    assert (letter.stage, letter.attempts, letter.reason) == ("llm", 5, "budget_exhausted")
    assert office.stages_called(job_id) == ["fetch"] * 5 + ["llm"] * 5
    stages = await rows(office, "select stage, attempts from penstock.stages where job_id = $1", job_id)
    assert {row["stage"]: row["attempts"] for row in stages} == {"fetch": 4, "llm": 5}
    charged = await rows(
        office, "select first_failure_at from penstock.stages where job_id = $1 and stage = 'llm'", job_id
    )
    assert letter.first_failure_at == charged[0]["first_failure_at"]


@pytest.mark.contract("E-22")
async def test_a_review_has_three_stages_in_this_order(office: Office) -> None:
    job_id = await office.h.enqueue("review", {"changelist": 7})
    await office.h.drain()
    assert office.stages_called(job_id) == ["fetch", "llm", "notify"]


@pytest.mark.contract("D-58", "D-59", "Q-15", "Q-70")
async def test_three_retries_and_the_fourth_failure_is_the_end(office: Office) -> None:
    office.faults["run"] = [Failed(FailureClass.NETWORK_RESET)] * 9
    job_id = await office.h.enqueue("plain")
    await office.h.drain()
    for span, failures in ((1, 2), (31, 3)):
        await office.h.pass_time(seconds=span)
        await office.h.drain()
        job = await office.h.job(job_id)
        assert (job["status"], job["attempt_count"]) == ("queued", failures)
    await office.h.pass_time(seconds=301)
    await office.h.drain()

    job = await office.h.job(job_id)
    assert (job["status"], job["attempt_count"], job["last_error_code"]) == ("failed", 4, "NETWORK_RESET")
    assert job["last_error_at"] is not None
    await office.h.pass_time(days=2)
    assert await office.h.drain() == 0
    assert len(office.stages_called(job_id)) == 4


@pytest.mark.contract("C-02", "D-91")
async def test_each_failed_job_has_one_dead_letter_and_no_other_job_has_any(office: Office) -> None:
    office.faults["run"] = [Failed(FailureClass.NOT_FOUND), Failed(FailureClass.AUTH_DENIED)]
    for _ in range(4):
        await office.h.enqueue("plain")
    await office.h.drain()
    failed = await rows(office, "select job_id from penstock.jobs where status = 'failed'")
    letters = await rows(office, "select job_id from penstock.dead_letters")
    assert len(failed) == 2
    assert sorted(row["job_id"] for row in failed) == sorted(row["job_id"] for row in letters)
    assert await office.db.fetchval("select to_regclass('penstock.dead_jobs')") is None


@pytest.mark.contract("C-02", "E-25", "E-32")
async def test_a_job_whose_workers_keep_dying_gets_its_letter_from_the_reaper(office: Office) -> None:
    @office.h.app.job("poison", attempts=2)
    async def poison(job: Job) -> None:
        office.calls.append((job.job_id, "run"))

    await office.h.app.sync_types()
    job_id = await office.h.enqueue("poison")
    owner = office.h.app.pool
    for claim in (1, 2):
        await owner.execute(
            "update penstock.jobs set status = 'processing', claim_seq = $2, claimed_by = 'gone', "
            "claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '1 minute' where job_id = $1",
            job_id,
            claim,
        )
        await office.h.pass_time(minutes=2)
        await owner.execute("select * from penstock.reap(10)")

    letter = await office.letter(await office.letter_of(job_id))
    assert (letter.error_class, letter.reason, letter.attempts) == ("LEASE_EXPIRED", "budget_exhausted", 2)
    assert "LEASE_EXPIRED" in letter.last_stack
    assert letter.first_failure_at < letter.last_failure_at
    context = letter.sanitized_context
    assert (context["attempt_count"], context["reclaim_count"], context["upstream_status"]) == (2, 2, None)
    assert context["payload_hash"]


@pytest.mark.contract("C-02", "D-63")
async def test_the_metric_tells_a_spent_budget_from_what_no_retry_mends(office: Office) -> None:
    def ended(label: str) -> float:
        return REGISTRY.get_sample_value("job_completed_total", {"job_type": "plain", "status": label}) or 0.0

    before = {label: ended(label) for label in ("success", "failed", "dead")}
    office.faults["run"] = [Failed(FailureClass.NOT_FOUND), *(Failed(FailureClass.NETWORK_RESET) for _ in range(4))]
    for _ in range(2):
        await office.h.enqueue("plain")
        await office.h.work_until_idle()
    await office.h.enqueue("plain")
    await office.h.drain()
    assert {label: ended(label) - before[label] for label in before} == {"success": 1, "failed": 1, "dead": 1}


async def test_letters_are_found_by_what_went_wrong(office: Office) -> None:
    missing = await office.dead("notify", FailureClass.NOT_FOUND)
    denied = await office.dead("llm", FailureClass.AUTH_DENIED)
    find, wanted = dead_letters.find, dead_letters.Filter
    assert [one.dead_letter_id for one in await find(office.db, wanted())] == [missing, denied]
    for chosen, expected in (
        (wanted(error_classes=["AUTH_DENIED"]), [denied]),
        (wanted(stages=["notify"]), [missing]),
        (wanted(job_types=["plain"]), []),
        (wanted(states=[dead_letters.LetterState.TRIAGED]), []),
        (wanted(older_than=timedelta(hours=1)), []),
        (wanted(newer_than=timedelta(hours=1), limit=1), [missing]),
    ):
        assert [one.dead_letter_id for one in await find(office.db, chosen)] == expected, chosen
    summary = await dead_letters.summarize(office.db)
    assert {(row["stage"], row["error_class"], row["letters"]) for row in summary} == {
        ("notify", "NOT_FOUND", 1),
        ("llm", "AUTH_DENIED", 1),
    }
