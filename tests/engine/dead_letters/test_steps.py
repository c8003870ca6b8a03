"""The five steps, in order, each with its evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

import asyncpg
import pytest

from penstock import FailureClass
from penstock.contract.dead_letters import REMEDIES
from penstock.contract.errors import NotFound, StepRefused
from penstock.engine import dead_letters
from penstock.engine.dead_letters import Cause, LetterState
from penstock.engine.replay import replay
from tests.engine.dead_letters.conftest import Office


@pytest.mark.contract("E-33", "E-34", "E-39", "E-40", "R-18")
async def test_the_steps_are_taken_in_order_and_each_leaves_who_what_and_when(office: Office) -> None:
    letter = await office.dead("notify")
    db = office.db
    await dead_letters.triage(db, letter, "data", operator="ann", note="channel gone")
    await dead_letters.remediate(db, letter, "channel restored", operator="ann")
    await dead_letters.validate(db, letter, "INC-7", replay_safe=True, operator="ben")
    job = await replay(db, letter, operator="ben")
    await office.h.drain()
    await dead_letters.close(db, letter, "delivered, seen in the channel", operator="eve")

    found = await office.letter(letter)
    assert (found.state, found.cause, found.remediation) == ("resolved", "data", "channel restored")
    assert (found.ticket, found.replay_safe, found.notes) == ("INC-7", True, "delivered, seen in the channel")
    assert found.closed_at is not None
    events = await dead_letters.events(db, letter)
    assert [(event.step, event.operator) for event in events] == [
        ("triaged", "ann"), ("remediated", "ann"), ("validated", "ben"), ("replayed", "ben"), ("closed", "eve"),
    ]  # fmt: skip
    assert sorted(event.at for event in events) == [event.at for event in events]
    seen = {"cause": "data", "error_class": "NOT_FOUND", "stage": "notify", "attempts": 1}
    assert {name: events[0].detail[name] for name in seen} == seen
    assert events[3].detail == {"job_id": str(job), "stage": "notify", "full_restart": False}


@pytest.mark.contract("E-33", "E-43")
@pytest.mark.parametrize("taken", range(4))
async def test_no_step_can_be_taken_before_the_one_ahead_of_it(office: Office, taken: int) -> None:
    letter, db = await office.dead("notify"), office.db
    steps = (
        lambda: dead_letters.triage(db, letter, Cause.DATA, operator="ann"),
        lambda: dead_letters.remediate(db, letter, "mended", operator="ann"),
        lambda: dead_letters.validate(db, letter, "INC-7", replay_safe=True, operator="ann"),
        lambda: replay(db, letter, operator="ann"),
        lambda: dead_letters.close(db, letter, "done", operator="ann"),
    )
    for step in steps[:taken]:
        await step()
    before = await office.letter(letter)
    for step in steps[taken + 1 :]:
        with pytest.raises(StepRefused) as refused:
            await step()
        assert ("triage", "remediate", "validate", "replay")[taken] in str(refused.value)
    assert await office.letter(letter) == before
    assert len(await dead_letters.events(db, letter)) == taken
    await office.h.enqueued("review", count=1)


@pytest.mark.contract("E-34")
async def test_a_cause_is_one_of_four(office: Office) -> None:
    letter = await office.dead("notify")
    with pytest.raises(StepRefused, match="transient, data, auth_config, code_defect"):
        await dead_letters.triage(office.db, letter, "bad luck", operator="ann")
    assert (await office.letter(letter)).state is LetterState.OPEN


@pytest.mark.contract("E-35", "E-36", "E-37", "E-38")
@pytest.mark.parametrize("cause", Cause)
async def test_each_cause_needs_the_record_of_its_remedy(office: Office, cause: Cause) -> None:
    letter = await office.dead("notify")
    await dead_letters.triage(office.db, letter, cause, operator="ann")
    with pytest.raises(StepRefused, match=REMEDIES[cause]):
        await dead_letters.remediate(office.db, letter, " ", operator="ann")
    for step in (
        dead_letters.validate(office.db, letter, "INC-7", replay_safe=True, operator="ann"),
        replay(office.db, letter, operator="ann"),
    ):
        with pytest.raises(StepRefused, match=REMEDIES[cause]):
            await step
    await dead_letters.remediate(office.db, letter, "mended", operator="ann")
    assert (await office.letter(letter)).remediation == "mended"


@pytest.mark.contract("E-39", "E-40")
async def test_a_replay_needs_a_ticket_and_the_word_that_it_is_safe(office: Office) -> None:
    letter = await office.dead("notify")
    await dead_letters.triage(office.db, letter, Cause.TRANSIENT, operator="ann")
    await dead_letters.remediate(office.db, letter, "upstream is back", operator="ann")
    with pytest.raises(StepRefused, match="ticket"):
        await dead_letters.validate(office.db, letter, "", replay_safe=True, operator="ann")
    with pytest.raises(StepRefused, match="idempotent, or safe"):
        await dead_letters.validate(office.db, letter, "INC-7", replay_safe=False, operator="ann")
    with pytest.raises(StepRefused, match="validate it first: a ticket"):
        await replay(office.db, letter, operator="ann")


@pytest.mark.contract("E-43", "E-44")
async def test_closing_needs_a_completed_replay_and_notes(office: Office) -> None:
    letter = await office.validated(await office.dead("notify"))
    with pytest.raises(StepRefused, match="no replay to verify"):
        await dead_letters.close(office.db, letter, "done", operator="ann")
    job = await replay(office.db, letter, operator="ann")
    with pytest.raises(StepRefused, match=f"its replay {job} is queued"):
        await dead_letters.close(office.db, letter, "done", operator="ann")
    await office.h.drain()
    with pytest.raises(StepRefused, match="resolution notes"):
        await dead_letters.close(office.db, letter, "", operator="ann")
    await dead_letters.close(office.db, letter, "seen in the channel", operator="ann")
    found = await office.letter(letter)
    assert (found.state, found.notes) == ("resolved", "seen in the channel")
    assert found.closed_at is not None
    with pytest.raises(StepRefused, match="resolved already"):
        await dead_letters.close(office.db, letter, "again", operator="ann")


@pytest.mark.contract("E-43")
async def test_closing_asks_about_deliveries_that_nobody_can_vouch_for(office: Office) -> None:
    letter = await office.validated(await office.dead("notify"))
    job = await replay(office.db, letter, operator="ann")
    await office.h.drain()
    await office.h.app.pool.execute(
        "insert into penstock.effects (effect_key, kind, token, job_id, state, intended_at) "
        "values ('review:mail:1', 'mail', 'token', $1, 'uncertain', penstock.now())",
        job,
    )
    with pytest.raises(StepRefused, match="1 outside effects of its jobs are not settled"):
        await dead_letters.close(office.db, letter, "done", operator="ann")
    await dead_letters.close(office.db, letter, "asked the recipient", operator="ann", delivery_verified=True)
    assert (await office.letter(letter)).state is LetterState.RESOLVED


async def test_triage_again_drops_the_evidence_that_followed(office: Office) -> None:
    letter = await office.validated(await office.dead("notify"))
    await dead_letters.triage(office.db, letter, Cause.CODE_DEFECT, operator="ann")
    found = await office.letter(letter)
    assert (found.state, found.cause) == ("triaged", "code_defect")
    assert (found.remediation, found.ticket, found.replay_safe) == (None, None, None)


async def test_work_that_nobody_wants_any_more_is_closed_without_a_replay(office: Office) -> None:
    letter = await office.dead("notify")
    with pytest.raises(StepRefused, match="triage it first"):
        await dead_letters.close(office.db, letter, "obsolete", operator="ann", without_replay=True)
    await dead_letters.triage(office.db, letter, Cause.DATA, operator="ann")
    await dead_letters.close(office.db, letter, "obsolete", operator="ann", without_replay=True)
    assert (await office.letter(letter)).state is LetterState.RESOLVED
    assert (await dead_letters.events(office.db, letter))[-1].step == "closed_without_replay"
    with pytest.raises(StepRefused, match="it is resolved"):
        await replay(office.db, letter, operator="ann")


async def test_a_step_without_a_name_or_a_letter_is_refused(office: Office) -> None:
    letter = await office.dead("notify")
    with pytest.raises(StepRefused, match="say who takes this step"):
        await dead_letters.triage(office.db, letter, Cause.DATA, operator=" ")
    nobody = uuid4()
    with pytest.raises(NotFound, match=f"no dead letter {nobody}; `penstock dead list`"):
        await dead_letters.triage(office.db, nobody, Cause.DATA, operator="ann")


@pytest.mark.contract("C-52")
async def test_what_an_operator_writes_is_redacted_too(office: Office) -> None:
    letter = await office.dead("notify")
    secret = "sk-live-4f9aQ2mX81zzTop"  # noqa: S105 - a canary
    await dead_letters.triage(office.db, letter, Cause.AUTH_CONFIG, operator="ann", note=f"the key was {secret}")
    await dead_letters.remediate(office.db, letter, f"rotated {secret}, told bob@example.org", operator="ann")
    events = await dead_letters.events(office.db, letter)
    found = await office.letter(letter)
    for text in (str(events), str(found.remediation)):
        assert secret not in text
        assert "bob@" not in text


@pytest.mark.contract("R-18")
async def test_the_traces_of_the_steps_cannot_be_rewritten(office: Office) -> None:
    await office.validated(await office.dead("notify"))
    owner = office.h.app.pool
    for statement in (
        "update penstock.dead_letter_events set operator = 'somebody'",
        "delete from penstock.dead_letter_events",
        "truncate penstock.dead_letter_events",
    ):
        with pytest.raises(asyncpg.PostgresError, match="append-only") as refused:
            await owner.execute(statement)
        assert refused.value.sqlstate == "PS002"


@pytest.mark.contract("E-33")
async def test_hand_typed_sql_cannot_skip_the_evidence(office: Office) -> None:
    letter = await office.dead("notify")
    step = "update penstock.dead_letters set state = $2 where dead_letter_id = $1"
    for state in ("triaged", "remediated", "validated", "replaying", "resolved"):
        with pytest.raises(asyncpg.CheckViolationError):
            await office.h.app.pool.execute(step, letter, state)  # the owner's
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await office.db.execute(step, letter, state)


@pytest.mark.contract("R-18")
@pytest.mark.parametrize("role", ["penstock_frontend", "penstock_orchestrator"])
async def test_only_operators_can_work_on_letters(office: Office, role: str, role_dsn: Callable[[str], str]) -> None:
    letter = await office.validated(await office.dead("notify"))
    stranger = await asyncpg.connect(role_dsn(role))
    for step in (
        dead_letters.get(stranger, letter),
        dead_letters.triage(stranger, letter, Cause.DATA, operator="eve"),
        replay(stranger, letter, operator="eve"),
        dead_letters.close(stranger, letter, "done", operator="eve", without_replay=True),
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await step
    await stranger.close()


async def test_of_two_operators_at_once_one_takes_the_step(office: Office, role_dsn: Callable[[str], str]) -> None:
    letter = await office.validated(await office.dead("notify", FailureClass.NOT_FOUND))
    others = [await asyncpg.connect(role_dsn("penstock_operator")) for _ in range(4)]
    answers = await asyncio.gather(*(replay(db, letter, operator="x") for db in others), return_exceptions=True)
    started = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(started) == 1
    assert all(isinstance(answer, StepRefused) for answer in answers if answer not in started)
    assert all(f"job {started[0]} replays it already" in str(answer) for answer in answers if answer not in started)
    await office.h.enqueued("review", count=2)
    for db in others:
        await db.close()
