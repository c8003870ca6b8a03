"""Steps on many letters at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock import Failed, FailureClass
from penstock.contract.errors import StepRefused
from penstock.engine import bulk, dead_letters
from penstock.engine.dead_letters import Cause, Filter, LetterState
from tests.engine.dead_letters.conftest import Office

REVIEWS = Filter(job_types=["review"])


async def states(office: Office, wanted: Filter = REVIEWS) -> list[str]:
    return sorted(str(letter.state) for letter in await dead_letters.find(office.db, wanted))


@pytest.mark.contract("E-33", "R-18")
async def test_many_letters_go_through_all_steps_by_filter(office: Office) -> None:
    for _ in range(5):
        await office.dead("notify", FailureClass.NOT_FOUND)
    await office.dead("llm", FailureClass.AUTH_DENIED)
    missing = Filter(job_types=["review"], error_classes=["NOT_FOUND"], stages=["notify"])
    seen: list[tuple[int, int]] = []

    await bulk.bulk_triage(office.db, missing, Cause.DATA, operator="ann", progress=lambda *count: seen.append(count))
    await bulk.bulk_remediate(office.db, missing, "channels restored", operator="ann")
    await bulk.bulk_validate(office.db, missing, "INC-9", replay_safe=True, operator="ann")
    replayed = await bulk.bulk_replay(office.db, missing, operator="ann")
    await office.h.drain()
    closed = await bulk.bulk_close(office.db, missing, "delivered", operator="ann")

    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert (len(replayed.done), replayed.refused) == (5, [])
    assert (len(closed.done), closed.handled) == (5, 5)
    assert await states(office) == ["open", *["resolved"] * 5]
    await office.h.enqueued("review", count=11)


async def test_a_letter_that_is_refused_is_reported_and_the_others_go_on(office: Office) -> None:
    ready = [await office.validated(await office.dead("notify")) for _ in range(3)]
    behind = await office.dead("notify")
    report = await bulk.bulk_replay(office.db, REVIEWS, operator="ann")
    assert sorted(report.done) == sorted(ready)
    assert [(one, "triage it first" in why) for one, why in report.refused] == [(behind, True)]
    again = await bulk.bulk_replay(office.db, REVIEWS, operator="ann")
    assert again.done == []


async def test_a_filter_can_name_age_and_number(office: Office) -> None:
    old = [await office.dead("notify") for _ in range(3)]
    await office.h.pass_time(hours=2)
    await office.dead("notify")
    report = await bulk.bulk_triage(
        office.db, Filter(older_than=timedelta(hours=1), limit=2), Cause.DATA, operator="ann"
    )
    assert report.done == old[:2]
    assert await states(office) == ["open", "open", "triaged", "triaged"]


async def test_a_command_that_can_never_work_is_refused_before_any_letter_is_touched(office: Office) -> None:
    await office.dead("notify")
    with pytest.raises(StepRefused, match="no cause"):
        await bulk.bulk_triage(office.db, REVIEWS, "gremlins", operator="ann")
    with pytest.raises(StepRefused, match="say who"):
        await bulk.bulk_replay(office.db, REVIEWS, operator="")
    assert await states(office) == ["open"]


async def test_letters_that_nobody_wants_are_closed_together(office: Office) -> None:
    office.faults["run"] = [Failed(FailureClass.NOT_FOUND)] * 3
    for _ in range(3):
        await office.h.enqueue("plain")
    await office.h.drain()
    report = await bulk.bulk_close(
        office.db, Filter(job_types=["plain"]), "obsolete", operator="ann", without_replay=True
    )
    assert len(report.done) == 3
    assert await states(office, Filter(states=[LetterState.RESOLVED])) == ["resolved"] * 3
