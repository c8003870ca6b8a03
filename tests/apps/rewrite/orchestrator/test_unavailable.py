"""What goes wrong after a message was taken: the request has failed, and the outside is told one word."""

from __future__ import annotations

import json

import pytest

from penstock.apps.rewrite.router import RoutingTable
from penstock.store import connect
from tests.apps.rewrite.conftest import ROUTE, MakeWorld, World
from tests.apps.rewrite.rewriter import complaint

RAISING = """
create function public.raising() returns trigger language plpgsql as $$
begin
    raise exception using errcode = 'XX901', message = 'refused: ' || new::text;
end
$$
"""
BREAK = {  # how the enqueue is made to fail → the code that the operator is told
    "UnknownType": "delete from penstock.types",
    "EnqueueRefused": "create trigger broken before insert on penstock.jobs for each row execute function raising()",
    "XX901": "create trigger broken before insert on rewrite.rewrite_jobs for each row execute function raising()",
    "42501": "revoke insert on rewrite.rewrite_jobs from penstock_orchestrator",
}


@pytest.mark.contract("A-38", "C-53", "A-47", "Q-81")
@pytest.mark.parametrize(("code", "statement"), BREAK.items(), ids=BREAK)
async def test_an_enqueue_that_fails_fails_the_request_and_says_nothing_more(
    world: World, code: str, statement: str
) -> None:
    home = await world.home()
    await world.owner.execute(RAISING)
    await world.owner.execute(statement)

    done = await world.submit(home, complaint("en", "00c0ffee0000"), idempotency_key="k")

    assert (done.accepted, done.failure_code) == (False, "rewrite_unavailable")
    row = await world.request(done.rewrite_request_id)
    assert (row["status"], row["failure_code"]) == ("failed", "rewrite_unavailable")
    assert await world.owner.fetchval("select count(*) from penstock.jobs") == 0
    (alert,) = await world.alerts()
    assert alert["kind"] == "rewrite_unavailable"
    told = {"code": code, "rewrite_request_id": str(done.rewrite_request_id)}
    assert json.loads(alert["subject"]) == told
    (line,) = [json.loads(line) for line in world.log.getvalue().splitlines() if '"rewrite_unavailable"' in line]
    assert {key: line[key] for key in told} == told
    assert world.asked() == 0
    assert await world.leaks("canary-00c0ffee0000") == []


async def test_a_route_that_nobody_can_go_fails_the_request_likewise(world: World) -> None:
    world.orchestrator.table = RoutingTable.model_validate({"default": {**ROUTE, "prompt_version": "v999"}})

    done = await world.submit(await world.home(), "Close the door!")

    assert (done.accepted, done.failure_code) == (False, "rewrite_unavailable")
    assert (await world.request(done.rewrite_request_id))["status"] == "failed"
    assert [json.loads(alert["subject"])["code"] for alert in await world.alerts()] == ["Failed"]


@pytest.mark.contract("A-74")
async def test_a_failed_request_is_never_tried_again_only_a_new_message_is(world: World) -> None:
    home = await world.home()
    sent = await world.send(home, idempotency_key="k-1")
    world.emulator.faults.add("refusal")
    await world.through()
    world.emulator.faults.clear()
    assert await world.ends(sent) == [("failed", "failed", "POLICY_REJECTED")]

    again = await world.submit(home, complaint("en", sent.canary), idempotency_key="k-1")
    fresh = await world.send(home)
    await world.through()

    assert (again.rewrite_request_id, again.accepted, again.repeated) == (sent.request_id, True, True)
    assert await world.ends(sent, fresh) == [
        ("failed", "failed", "POLICY_REJECTED"),
        ("completed", "completed", None),
    ]


async def test_one_cause_is_told_once_until_somebody_has_seen_it(world: World) -> None:
    home = await world.home()
    await world.owner.execute("delete from penstock.types")
    for _ in range(3):
        assert not (await world.submit(home, "Close the door!")).accepted

    assert len(await world.alerts()) == 1
    await world.owner.execute("update penstock.alerts set acknowledged_at = now(), acknowledged_by = 'me'")
    await world.submit(home, "Close the door!")
    assert len(await world.alerts()) == 2


async def test_a_database_that_goes_away_takes_nothing_and_says_so(world: World) -> None:
    home = await world.home()
    await world.owner.execute(
        "create function public.cutting() returns trigger language plpgsql as $$ begin "
        "perform pg_terminate_backend(pg_backend_pid()); return new; end $$; "
        "create trigger cutting before insert on rewrite.rewrite_jobs for each row execute function cutting()"
    )

    with pytest.raises(connect.AWAY):
        await world.submit(home, "Close the door!", idempotency_key="k")
    assert await world.owner.fetchval("select count(*) from rewrite.rewrite_requests") == 0

    await world.owner.execute("drop trigger cutting on rewrite.rewrite_jobs")
    assert (await world.submit(home, "Close the door!", idempotency_key="k")).accepted


@pytest.mark.contract("A-63", "C-11", "Q-39", "A-23")
@pytest.mark.parametrize(
    ("retries", "attempts", "budget"), [(2, 2, 2), (0, 2, 1), (1, 2, 2), (5, 2, 2), (2, 3, 3), (1, 3, 2)]
)
async def test_the_budget_is_the_smaller_of_policy_and_route(
    make_world: MakeWorld, retries: int, attempts: int, budget: int
) -> None:
    world: World = await make_world({"max_retries": retries}, rewrite_attempts=attempts)
    sent = await world.send(await world.home())

    assert (await world.job(sent))["max_attempts"] == budget
