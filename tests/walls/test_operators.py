"""A login of penstock_operator that runs any SQL it likes: functions, in their order, each with a trace."""

from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest

from tests.walls.conftest import FRONTEND, OPERATOR, ORCHESTRATOR, VIEWER, WORKER, Town

LETTER: Final = "(select dead_letter_id from penstock.dead_letters where job_type = '{}' order by created_at limit 1)"
REFUSED: Final = {
    "enqueue by hand": "insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, "
    "max_attempts, job_type, "
    "stage) values (gen_random_uuid(), penstock.now(), penstock.now(), penstock.now(), true, 3, 'open', 'run')",
    "enqueue by hand what it may not enqueue": "insert into penstock.jobs (job_id, created_at, updated_at, "
    "run_at, ready, "
    "max_attempts, job_type, stage) values (gen_random_uuid(), penstock.now(), penstock.now(), "
    "penstock.now(), true, 99, "
    "'wall', 'fetch')",
    "read payloads": "select payload from penstock.jobs",
    "read kept payloads": "select payload from penstock.kept_keys",
    "read the payload of a schedule": "select payload from penstock.schedules",
    "read the salt of locks": "select salt from penstock.lock_salt",
    "rewrite the class of a failure": "update penstock.dead_letters set error_class = 'OTHER'",
    "rewrite a stack": "update penstock.dead_letters set last_stack = ''",
    "rewrite the context of a failure": "update penstock.dead_letters set sanitized_context = '{}'",
    "close by hand": "update penstock.dead_letters set state = 'resolved', notes = 'x', closed_at = penstock.now()",
    "forge a step of another": "insert into penstock.dead_letter_events (dead_letter_id, step, operator) "
    "select dead_letter_id, 'triaged', 'bob' from penstock.dead_letters",
    "forge an act of another": "insert into penstock.operator_events (at, db_user, actor, action) "
    "values (penstock.now(), 'bob', 'bob', 'cancel')",
    "hide its own acts": "set local penstock.pruning = 'on'; delete from penstock.operator_events",
    "shorten retention by hand": "update penstock.retention set keep = interval '1 day'",
    "supersede a job": "update penstock.jobs set superseded_by_job_id = gen_random_uuid()",
    "copy a stage": "insert into penstock.stages (job_id, stage) select job_id, 'tell' from penstock.jobs limit 1",
}  # fmt: skip


@pytest.mark.contract("C-68", "E-33")
@pytest.mark.parametrize("what", REFUSED)
def test_an_operator_cannot(what: str, town: Town) -> None:
    town.owner.execute(
        "select penstock.cancel(job_id, 'ann', 'x') from penstock.jobs where payload ->> 'name' = 'later'"
    )
    assert town.refusal("owner", REFUSED[what]) is None, "no control: the owner cannot either"
    assert town.refusal(OPERATOR, REFUSED[what]) == "42501"


def step(town: Town, name: str, *more: object, actor: str = "ann", role: str = OPERATOR, kind: str = "wall") -> None:
    evidence = (*more, *(None,) * (5 - len(more)))
    town.login(role).execute(
        f"select penstock.take_step({LETTER.format(kind)}, %s, %s, '{{}}', %s, %s, %s, %s, %s)",
        [name, actor, *evidence],
    )


def replay(town: Town, kind: str = "wall", *, full: bool = False) -> Any:
    return (
        town.login(OPERATOR)
        .execute(
            f"select job_id, stage from penstock.replay({LETTER.format(kind)}, %s, %s, 'ann')",
            [full, uuid4()],
        )
        .fetchone()
    )


@pytest.fixture
def wall_letter(town: Town) -> Town:
    """A dead letter of the type that asks for the five steps, failed at its second stage."""
    town.owner.execute(
        "insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, max_attempts, audited, "
        "staged, job_type, "
        "stage, payload, idempotency_key) values ('00000000-0000-0000-0000-0000000000aa', penstock.now(), "
        "penstock.now(), "
        "penstock.now(), true, 3, true, true, 'wall', 'tell', '{\"name\": \"wall\"}', 'wall:1')"
    )
    town.owner.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'mine', claimed_at = "
        "penstock.now(), "
        "lease_expires_at = penstock.now() + interval '1 hour' where job_type = 'wall'"
    )
    town.owner.execute(
        "insert into penstock.stages (job_id, stage, finished_at, result) values "
        "('00000000-0000-0000-0000-0000000000aa', 'fetch', penstock.now(), '{\"n\": 1}')"
    )
    with town.owner.transaction():
        town.owner.execute(
            "update penstock.jobs set status = 'failed', finished_at = penstock.now(), lease_expires_at = null, "
            "last_error_code = 'X', last_error_at = penstock.now() where job_type = 'wall'"
        )
        town.owner.execute(
            "select penstock.bury(job_id, null, job_type, stage, 'X', false, 'non_retryable', 's', '{}', 1, "
            "null, null) "
            "from penstock.jobs where job_type = 'wall'"
        )
    return town


@pytest.mark.contract("E-33", "E-34", "E-35", "E-39", "E-40")
def test_the_five_steps_are_taken_in_their_order_whatever_calls_them(wall_letter: Town) -> None:
    town = wall_letter
    refused = pytest.raises(psycopg.Error, match="cannot")
    with refused:
        replay(town)
    with refused:
        step(town, "remediated", None, "fixed")
    with refused:
        step(town, "triaged")
    step(town, "triaged", "data")
    with refused:
        step(town, "validated", None, None, "T-1", True)
    with refused:
        step(town, "remediated", None, "  ")
    step(town, "remediated", None, "corrected the row")
    with refused:
        replay(town)
    with refused:
        step(town, "validated", None, None, "", True)
    with refused:
        step(town, "validated", None, None, "T-1", False)
    step(town, "validated", None, None, "T-1", True)
    with refused:
        step(town, "triaged", "data", actor="  ")
    job_id, stage = replay(town)
    assert stage == "tell", "it begins at the stage that failed"
    assert town.one("select replay_of_job_id::text from penstock.jobs where job_id = %s", job_id).endswith("aa")
    assert town.one("select count(*) from penstock.stages where job_id = %s", job_id) == 1
    with refused:
        replay(town)
    with refused:
        step(town, "closed", None, None, None, None, "done")


@pytest.mark.contract("E-41", "E-42", "C-68")
def test_a_replay_has_the_budget_of_its_type_and_a_full_restart_begins_at_its_first_stage(wall_letter: Town) -> None:
    town = wall_letter
    step(town, "triaged", "data")
    step(town, "remediated", None, "corrected")
    step(town, "validated", None, None, "T-1", True)
    town.owner.execute("update penstock.types set max_attempts = 2 where job_type = 'wall'")
    job_id, stage = replay(town, full=True)
    assert stage == "fetch"
    assert town.one("select max_attempts from penstock.jobs where job_id = %s", job_id) == 2
    assert town.one("select count(*) from penstock.stages where job_id = %s", job_id) == 0


@pytest.mark.contract("E-43", "E-44")
def test_a_letter_is_closed_with_notes_and_a_completed_replay(wall_letter: Town) -> None:
    town = wall_letter
    step(town, "triaged", "data")
    step(town, "remediated", None, "corrected")
    step(town, "validated", None, None, "T-1", True)
    job_id, _ = replay(town)
    with pytest.raises(psycopg.Error, match="its replay is queued"):
        step(town, "closed", None, None, None, None, "delivered")
    town.owner.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'mine', claimed_at = "
        "penstock.now(), "
        "lease_expires_at = penstock.now() + interval '1 hour' where job_id = %s",
        [job_id],
    )
    town.owner.execute(
        "update penstock.jobs set status = 'completed', finished_at = penstock.now(), lease_expires_at = null "
        "where job_id = %s",
        [job_id],
    )
    with pytest.raises(psycopg.Error, match="write notes"):
        step(town, "closed", None, None, None, None, " ")
    step(town, "closed", None, None, None, None, "delivered")
    assert (
        town.one(f"select state from penstock.dead_letters where dead_letter_id = {LETTER.format('wall')}")
        == "resolved"
    )


@pytest.mark.contract("E-33", "C-68")
@pytest.mark.parametrize("role", [WORKER, ORCHESTRATOR, FRONTEND, VIEWER])
def test_no_other_role_takes_a_step_replays_or_opens_a_payload(role: str, town: Town) -> None:
    letter = town.one("select dead_letter_id from penstock.dead_letters where job_type = 'open'")
    for call in (
        f"select penstock.take_step('{letter}', 'triaged', 'x', '{{}}', 'data')",
        f"select penstock.replay('{letter}', false, null, 'x')",
        f"select penstock.lock_dead_letter('{letter}')",
        f"select penstock.open_payload('{town.job('dead')}', 'why')",
        f"select penstock.cancel('{town.job('queued')}', 'x', 'y')",
        "select penstock.set_retention('audit', interval '1 day', 'x')",
        "select penstock.close_breaker('open')",
        "select penstock.create_key('zbcdefghijkl', sha256(''), 'operator', null, null, 'n', 'x', interval '1 day')",
        "select penstock.note_act('cancel', 'x', '{}')",
    ):
        assert town.refusal(role, call) == "42501", call
        assert town.refusal("owner", call) is None, call


@pytest.mark.contract("C-68")
def test_a_payload_is_opened_with_a_reason_and_leaves_a_trace(town: Town) -> None:
    operator = town.login(OPERATOR)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="say why"):
        operator.execute("select penstock.open_payload(%s, ' ')", [town.job("queued")])
    opened = operator.execute("select penstock.open_payload(%s, 'ticket 12', 'ann')", [town.job("queued")]).fetchone()
    assert opened == ({"name": "queued"},)
    trace = town.owner.execute(
        "select db_user::text, actor, subject ->> 'job_id', reason from penstock.operator_events where "
        "action = 'open_payload'"
    ).fetchall()
    assert trace == [(OPERATOR, "ann", str(town.job("queued")), "ticket 12")]
    assert town.one("select penstock.unrecorded_openings()") == 0


@pytest.mark.contract("C-68")
def test_an_opening_that_is_rolled_back_is_missed(town: Town) -> None:
    operator = town.login(OPERATOR)
    with operator.transaction(force_rollback=True):
        operator.execute("select penstock.open_payload(%s, 'nobody will know')", [town.job("queued")])
    assert town.one("select count(*) from penstock.operator_events where action = 'open_payload'") == 0
    assert town.one("select penstock.unrecorded_openings()") == 1


ACTS: Final = {
    "pause": "update penstock.types set paused_at = penstock.now(), paused_by = 'ann' where job_type = 'open'",
    "resume": "update penstock.types set paused_at = null, paused_by = null where job_type = 'paused'",
    "limits": "update penstock.types set max_running = 1 where job_type = 'open'",
    "schedule_off": "update penstock.schedules set enabled = false",
    "schedule_run": "update penstock.schedules set requested_at = penstock.now(), requested_by = 'ann'",
    "acknowledge": "update penstock.alerts set acknowledged_at = penstock.now(), acknowledged_by = 'ann' "
    "where kind = 'test'",
    "cancel": "select penstock.cancel(job_id, 'ann', 'why') from penstock.jobs where idempotency_key = 'open:queued'",
    "create_key": "select penstock.create_key('zbcdefghijkl', sha256(''), 'operator', null, null, 'n', "
    "'ann', interval '1 day')",
    "retention": "select penstock.set_retention('runs', interval '30 days', 'ann')",
}  # fmt: skip


@pytest.mark.contract("C-68")
@pytest.mark.parametrize("action", ACTS)
def test_every_act_keeps_the_login_beside_the_name_it_gave(action: str, town: Town) -> None:
    town.login(OPERATOR).execute(ACTS[action])
    row = town.owner.execute(
        "select db_user::text, actor from penstock.operator_events where action = %s order by event_id desc", [action]
    ).fetchone()
    assert row is not None
    assert row[0] == OPERATOR
    assert row[1] in ("ann", OPERATOR)


@pytest.mark.contract("C-68")
def test_keys_and_steps_keep_the_login_too(town: Town) -> None:
    operator = town.login(OPERATOR)
    operator.execute(
        "select penstock.create_key('zbcdefghijkl', sha256(''), 'operator', null, null, 'n', 'ann', '1 day')"
    )
    operator.execute("select penstock.revoke_key('zbcdefghijkl', 'bob')")
    key = operator.execute(
        "select created_by, created_db_user::text, revoked_by, revoked_db_user::text from penstock.list_keys() "
        "where key_id = 'zbcdefghijkl'"
    ).fetchone()
    assert key == ("ann", OPERATOR, "bob", OPERATOR)
    step(town, "triaged", "data", kind="open")
    row = town.owner.execute("select operator, db_user::text from penstock.dead_letter_events where step = 'triaged'")
    assert row.fetchone() == ("ann", OPERATOR)
    operator.execute("select penstock.reopen_effect('open:mail:1', 'ann')")
    attempt = town.owner.execute("select outcome, db_user::text from penstock.effect_attempts where action = 'settle'")
    assert attempt.fetchone() == ("reopened by ann", OPERATOR)
