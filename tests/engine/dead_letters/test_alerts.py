"""Alerts: raised with what they are about, announced once, acknowledged by a person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest
from structlog.testing import capture_logs

from penstock import Failed, FailureClass
from penstock.contract.errors import NotFound
from penstock.engine import alerts
from penstock.engine.alerts import Alert, Severity
from tests.engine.dead_letters.conftest import Office


@pytest.mark.contract("E-11", "R-14")
async def test_a_bug_goes_to_dead_letter_at_once_and_pages(office: Office) -> None:
    letter = await office.letter(await office.dead("llm", FailureClass.RUNTIME_BUG))
    assert (letter.error_class, letter.attempts, letter.reason) == ("RUNTIME_BUG", 1, "non_retryable")
    (page,) = await alerts.find(office.db)
    assert (page.kind, page.severity) == ("runtime_bug", Severity.PAGE)
    assert page.subject == {
        "job_id": str(letter.job_id), "job_type": "review", "stage": "llm", "code": "RUNTIME_BUG",
    }  # fmt: skip


@pytest.mark.contract("E-10", "R-14")
async def test_a_reject_that_nobody_expected_escalates_and_an_expected_one_does_not(office: Office) -> None:
    surprise = await office.letter(await office.dead("llm", FailureClass.POLICY_REJECTED))
    assert surprise.escalated_at is not None
    office.faults["llm"] = [Failed(FailureClass.POLICY_REJECTED, expected=True)]
    job = await office.h.enqueue("review", {"changelist": 8})
    await office.h.drain()
    expected = await office.letter(await office.letter_of(job))
    assert (expected.attempts, expected.escalated_at) == (1, None)
    raised = [(one.kind, one.severity) for one in await alerts.find(office.db)]
    assert raised == [("unexpected_reject", Severity.ESCALATION)]


async def test_other_failures_raise_no_alert(office: Office) -> None:
    await office.dead("llm", FailureClass.NOT_FOUND)
    assert await alerts.find(office.db) == []


@pytest.mark.contract("R-14")
async def test_each_alert_is_logged_and_handed_to_every_sink_once(office: Office, dsn: str) -> None:
    await office.dead("llm", FailureClass.RUNTIME_BUG)
    await office.dead("notify", FailureClass.RUNTIME_BUG)
    heard: list[Alert] = []
    later: list[Alert] = []

    async def slowly(alert: Alert) -> None:
        await asyncio.sleep(0)
        later.append(alert)

    others = [await asyncpg.connect(dsn) for _ in range(3)]
    with capture_logs() as lines:
        told = await asyncio.gather(*(alerts.announce(db, [heard.append, slowly]) for db in others))
    assert sum(told) == 2
    assert sorted(one.alert_id for one in heard) == sorted(one.alert_id for one in later)
    assert len({one.alert_id for one in heard}) == len(heard) == 2
    announced = [line for line in lines if line["event"] == "alert_raised"]
    assert {line["subject"]["stage"] for line in announced} == {"llm", "notify"}
    assert {line["log_level"] for line in announced} == {"error"}
    assert await alerts.announce(office.db, [heard.append]) == 0
    for db in others:
        await db.close()


async def test_a_sink_that_fails_gets_another_chance_and_does_not_stop_the_others(office: Office) -> None:
    await office.dead("llm", FailureClass.RUNTIME_BUG)
    heard: list[Alert] = []

    def broken(_: Alert) -> None:
        raise ConnectionError("no route to the pager")

    with capture_logs() as lines:
        for _ in range(3):
            await alerts.announce(office.db, [broken, heard.append])
    assert len(heard) == 3
    failed = next(line for line in lines if line["event"] == "alert_sink_failed")
    assert failed["error"] == "ConnectionError"
    assert "pager" not in str(lines)
    for _ in range(5):
        await alerts.announce(office.db, [broken])
    assert await alerts.announce(office.db, [heard.append]) == 0, "given up after a few tries"


async def test_an_alert_is_acknowledged_by_the_first_who_says_so(office: Office) -> None:
    alert = await alerts.raise_alert(office.db, "clock_skew", Severity.ALERT, {"host": "db 1", "job_id": None, "ms": 7})
    assert (await alerts.find(office.db))[0].subject["ms"] == "7"
    assert "db 1" not in str((await alerts.find(office.db))[0].subject), "what could be text is hashed"
    assert await alerts.acknowledge(office.db, alert, who="ann") is True
    assert await alerts.acknowledge(office.db, alert, who="ben") is False
    (row,) = await alerts.find(office.db)
    assert row.acknowledged_by == "ann"
    assert await alerts.find(office.db, unacknowledged=True) == []
    with pytest.raises(NotFound, match="no alert 99"):
        await alerts.acknowledge(office.db, 99, who="ann")


@pytest.mark.contract("R-14")
async def test_a_running_worker_announces_what_others_raise(office: Office, role_dsn: Callable[[str], str]) -> None:
    heard: asyncio.Queue[Alert] = asyncio.Queue()
    office.h.app.on_alert(heard.put_nowait)
    async with office.h.running("herald", types=["plain"], dsn=role_dsn("penstock_worker")):
        await alerts.raise_alert(office.db, "clock_skew", Severity.ALERT, {"ms": 900})
        alert = await asyncio.wait_for(heard.get(), 10)
    assert alert.kind == "clock_skew"
