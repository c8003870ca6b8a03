"""`penstock effects resolve`: a person says what became of an effect in doubt."""

import json
from typing import Any
from uuid import UUID

import pytest

from tests.support.desk import Desk
from tests.support.desks import Command


def intend(desk: Desk, key: str = "mail:1", job_id: UUID | None = None, state: str = "uncertain") -> None:
    desk.owner.execute(
        "insert into penstock.effects (effect_key, kind, token, job_id, claim_seq, intended_at, state, done_at) "
        "values (%s, 'mail', 't', coalesce(%s, gen_random_uuid()), 1, penstock.now(), %s, "
        "case when %s then penstock.now() end)",
        (key, job_id, state, state == "done"),
    )


def effect(desk: Desk, key: str = "mail:1") -> dict[str, Any]:
    return desk.row("select state, result from penstock.effects where effect_key = %s", key)


@pytest.mark.contract("C-61")
@pytest.mark.parametrize(
    ("seen", "state", "result"),
    [
        (("--happened", "--result", '{"id": "m-17"}'), "done", {"id": "m-17"}),
        (("--happened",), "done", None),
        (("--absent",), "abandoned", None),
    ],
)
def test_an_operator_says_whether_an_open_effect_happened(
    desk: Desk, penstock: Command, seen: tuple[str, ...], state: str, result: object
) -> None:
    intend(desk)
    for _ in range(2):  # the second time it is so already
        done = penstock("effects", "resolve", "mail:1", *seen, "--who", "alex", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout) == [{"effect_key": "mail:1", "state": state, "error": None}]
    assert effect(desk) == {"state": state, "result": result}
    (trace,) = desk.owner.execute("select action, outcome from penstock.effect_attempts").fetchall()
    assert trace["outcome"].endswith("by alex")


def test_what_was_settled_otherwise_stays_and_the_others_go_on(desk: Desk, penstock: Command) -> None:
    intend(desk, "mail:1", state="done")
    intend(desk, "mail:2")
    done = penstock("effects", "resolve", "mail:1", "mail:2", "--absent")
    assert done.exit_code == 6
    assert "mail:1 is done and stays so" in done.stderr
    assert (effect(desk, "mail:1")["state"], effect(desk, "mail:2")["state"]) == ("done", "abandoned")


def test_an_effect_that_a_live_claim_has_in_hand_is_refused(desk: Desk, penstock: Command) -> None:
    desk.sync_types()
    job_id = desk.put("noop")
    desk.claim(job_id)
    intend(desk, job_id=job_id, state="intended")
    done = penstock("effects", "resolve", "mail:1", "--absent")
    assert done.exit_code == 6
    assert "right now" in done.stderr
    assert effect(desk)["state"] == "intended"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nope", "--absent"), 3, "penstock effects list"),
        (("mail:1",), 2, "--happened"),
        (("mail:1", "--happened", "--result", "{"), 2, "no JSON"),
        (("mail:1", "--absent", "--result", "{}"), 2, "no result"),
    ],
)
def test_nothing_is_resolved_by_mistake(
    desk: Desk, penstock: Command, arguments: tuple[str, ...], code: int, words: str
) -> None:
    intend(desk)
    done = penstock("effects", "resolve", *arguments)
    assert done.exit_code == code, done.output
    assert words in done.stderr
    assert effect(desk)["state"] == "uncertain"


@pytest.mark.parametrize("role", ["penstock_worker", "penstock_orchestrator"])
def test_only_an_operator_resolves(desk: Desk, penstock: Command, role: str) -> None:
    intend(desk)
    assert penstock("effects", "resolve", "mail:1", "--absent", role=role).exit_code == 6
    assert effect(desk)["state"] == "uncertain"
