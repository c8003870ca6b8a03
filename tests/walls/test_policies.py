"""Who may loosen a policy (C-71): a worker tightens, an operator loosens, and what waits is kept."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import asyncpg
import pytest

from penstock import Audit, Limits, Penstock, Rate
from penstock.store import doctor, roles
from penstock.store import types as type_store
from tests.walls.conftest import OPERATOR, WORKER, Town

RoleDsn = Callable[[str], str]
# One value each, with the column that must not move.
LOOSER: Final = {
    "audited": "audited = false",
    "steps_required": "steps_required = false",
    "keep_finished": "keep_finished = interval '1 day'",
    "keep_keys": "keep_keys = interval '1 day'",
    "enqueue_role": "enqueue_role = null",
    "max_running": "max_running = 4",
    "no limit": "max_running = null",
    "rate_count": "rate_count = 11",
    "rate_period": "rate_period = interval '30 seconds'",
    "no rate": "rate_count = null, rate_period = null",
    "key_max_running": "key_max_running = 3",
    "key_rate_count": "key_rate_count = 6",
    "daily_spend_cap": "policy = jsonb_set(policy, '{daily_spend_cap}', '\"6\"')",
    "no daily_spend_cap": "policy = jsonb_set(policy, '{daily_spend_cap}', 'null')",
    "another enqueue_role": "enqueue_role = 'penstock_worker'",
}  # fmt: skip
TIGHTER: Final = {
    "keep_finished": "keep_finished = interval '20 days'",
    "keep_keys": "keep_keys = null",
    "max_running": "max_running = 2",
    "rate_count": "rate_count = 9",
    "rate_period": "rate_period = interval '2 minutes'",
    "key_max_running": "key_max_running = 1",
    "daily_spend_cap": "policy = jsonb_set(policy, '{daily_spend_cap}', '\"4\"')",
}  # fmt: skip
ROW: Final = (
    "select row_to_json(t)::jsonb - 'policy_version' - 'synced_at' from penstock.types t where job_type = 'wall'"
)


@pytest.mark.contract("C-71")
@pytest.mark.parametrize("what", LOOSER)
def test_a_worker_cannot_loosen_and_an_operator_can(what: str, town: Town) -> None:
    before = town.one(ROW)
    change = f"update penstock.types set {LOOSER[what]} where job_type = 'wall'"
    town.login(WORKER).execute(change)
    assert town.one(ROW) == before
    assert town.one("select count(*) from penstock.pending_policies where job_type = 'wall'") == 1
    town.login(OPERATOR).execute(change)
    assert town.one(ROW) != before


@pytest.mark.contract("C-71")
@pytest.mark.parametrize("what", TIGHTER)
def test_a_worker_may_tighten(what: str, town: Town) -> None:
    before = town.one(ROW)
    town.login(WORKER).execute(f"update penstock.types set {TIGHTER[what]} where job_type = 'wall'")
    assert town.one(ROW) != before
    assert town.one("select count(*) from penstock.pending_policies where job_type = 'wall'") == 0


@pytest.mark.contract("C-71", "A-35")
def test_a_worker_registers_a_type_and_does_not_overwrite_one_by_inserting_it(town: Town) -> None:
    insert = (
        "insert into penstock.types (job_type, policy, stages, max_attempts) values ('{}', '{{}}', '{{run}}', 1) "
        "on conflict (job_type) do update set enqueue_role = null, audited = false"
    )
    town.login(WORKER).execute(insert.format("brand_new"))
    before = town.one(ROW)
    town.login(WORKER).execute(insert.format("wall"))
    assert town.one(ROW) == before


def application(dsn: str, *, strict: bool) -> Penstock:
    """The same type twice: as it was deployed first, and as a later deploy loosens it."""
    app = Penstock(dsn)
    if strict:
        limits = Limits(running=2, rate=Rate(10, timedelta(minutes=1)))
        options: dict[str, Any] = {"audit": Audit.FULL, "limits": limits, "daily_spend_cap": "5", "keep_finished": None}
    else:
        options = {
            "audit": Audit.SUMMARY,
            "limits": Limits(running=9),
            "keep_finished": timedelta(days=1),
            "attempts": 7,
        }

    @app.job("mail", **options)
    async def mail() -> None: ...

    return app


@pytest.mark.contract("C-71")
async def test_a_deploy_that_loosens_waits_for_an_operators_sync_and_the_rest_takes_effect_at_once(
    dsn: str, role_dsn: RoleDsn
) -> None:
    async with application(role_dsn(roles.WORKER), strict=True) as first:
        await first.sync_types()
    loose = application(role_dsn(roles.WORKER), strict=False)
    async with loose:
        await loose.sync_types()
        await loose.sync_types()
    owner = await asyncpg.connect(dsn)
    stored = (
        "select audited, max_running, rate_count, keep_finished, max_attempts, policy_version "
        "from penstock.types where job_type = 'mail'"
    )
    assert tuple(await owner.fetchrow(stored) or ()) == (True, 2, 10, None, 7, 2), (
        "held, but for the attempts; synced once"
    )
    assert (await type_store.waiting(owner))["mail"] == ["audit", "daily_spend_cap", "keep_finished", "limits"]
    (finding,) = [f for f in await doctor.examine(dsn) if f.check == "pending_policies"]
    assert "type mail" in finding.finding
    assert "types sync" in finding.remedy

    operators = application(role_dsn(roles.OPERATOR), strict=False)
    async with operators:
        await operators.sync_types()
    assert tuple(await owner.fetchrow(stored) or ())[:5] == (False, 9, None, timedelta(days=1), 7)
    assert "mail" not in await type_store.waiting(owner)
    policy = json.loads(await owner.fetchval("select policy::text from penstock.types where job_type = 'mail'"))
    assert policy["daily_spend_cap"] is None
    await owner.close()


@pytest.mark.contract("C-71", "C-64")
def test_the_stored_cap_stops_a_type_whatever_cap_the_worker_names(town: Town) -> None:
    worker = town.login(WORKER)
    spend = "select penstock.add_spend('wall', 'p', 'm', '', '', 'async', 1, 1, 2000000, {}, 1)"
    paused = worker.execute(spend.format(99_000_000)).fetchone()
    assert paused == (True,), "4 and 2 are more than the stored 5"
    lift = "update penstock.types set paused_at = null, paused_by = null, pause_reason = null where job_type = 'wall'"
    assert town.refusal(WORKER, lift) == "42501", "there is no room under the stored cap"
    town.owner.execute("update penstock.types set policy = jsonb_set(policy, '{daily_spend_cap}', '\"50\"')")
    assert town.refusal(WORKER, lift) is None, "now there is"
