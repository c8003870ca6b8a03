"""Retention: what goes, what stays, and how."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock.contract.errors import IdempotencyKeyReused, PenstockError
from penstock.engine import dead_letters, retention
from penstock.engine.alerts import Severity, acknowledge, raise_alert
from penstock.engine.dead_letters import Cause
from penstock.engine.replay import retry
from penstock.store import retention as store
from penstock.store.statements import sql
from tests.engine.retention.conftest import Archive


async def a_run(db: Any) -> None:
    await db.execute(
        "insert into penstock.runs (run_id, function, trigger, worker_id, profile, started_at, max_jobs_per_run, "
        "max_runtime_seconds) values (gen_random_uuid(), 'f', 'poll', 'w', 'base', penstock.now(), 1, 1)"
    )


@pytest.mark.contract("C-67")
async def test_finished_jobs_go_when_their_types_time_is_over(archive: Archive) -> None:
    old = await archive.finished("two", 3)
    kept = await archive.finished("lasting", 2)
    await archive.h.pass_time(days=6)
    young = await archive.finished("brief", 2)
    waiting = await archive.h.enqueue("brief", delay=timedelta(days=300))
    await archive.h.pass_time(days=2)

    assert await archive.prune() == {"jobs": 3}
    assert await archive.ids() == {*kept, *young, waiting}
    assert await archive.count("stages") == 0
    await archive.h.pass_time(days=400)
    await archive.prune()
    assert await archive.ids() == {*kept, waiting}
    assert not set(old) & await archive.ids()


@pytest.mark.contract("C-67", "C-65")
async def test_the_key_of_a_pruned_job_still_returns_it_until_its_own_time_is_over(archive: Archive) -> None:
    (job,) = await archive.finished("brief", key="invoice-1")
    await archive.h.pass_time(days=8)
    assert await archive.prune() == {"jobs": 1}

    assert await archive.h.enqueue("brief", {"n": 0}, key="invoice-1") == job
    assert await archive.h.app.enqueue_many("brief", [{"n": 0}], keys=["invoice-1"]) == [job]
    with pytest.raises(IdempotencyKeyReused):
        await archive.h.enqueue("brief", {"n": 1}, key="invoice-1")
    await archive.h.enqueued("brief", count=0)

    await archive.h.pass_time(days=31)
    assert await archive.prune() == {"keys": 1}
    assert await archive.h.enqueue("brief", {"n": 0}, key="invoice-1") != job


@pytest.mark.contract("C-65", "C-67")
async def test_a_type_may_remember_its_keys_for_ever(archive: Archive) -> None:
    (job,) = await archive.finished("remembered", key="once")
    await archive.h.pass_time(days=8)
    await archive.prune()
    await archive.h.pass_time(days=36_000)
    assert await archive.prune() == {}
    assert await archive.h.enqueue("remembered", {"n": 0}, key="once") == job


@pytest.mark.contract("C-65", "C-67")
async def test_a_retention_killed_between_key_and_job_leaves_both_and_goes_on_later(archive: Archive) -> None:
    (job,) = await archive.finished("brief", key="invoice-1")
    await archive.h.pass_time(days=8)
    await archive.h.app.pool.execute("select penstock.keep_keys($1)", [job])  # and then the process died

    assert await archive.h.enqueue("brief", {"n": 0}, key="invoice-1") == job
    assert await archive.h.app.enqueue_many("brief", [{"n": 0}], keys=["invoice-1"]) == [job]
    assert await archive.prune() == {"jobs": 1}
    assert await archive.h.enqueue("brief", {"n": 0}, key="invoice-1") == job


@pytest.mark.contract("C-65")
async def test_a_job_whose_key_is_not_kept_yet_is_not_removed(archive: Archive) -> None:
    (job,) = await archive.finished("brief", key="invoice-1")
    await archive.h.pass_time(days=8)
    assert await archive.h.app.pool.fetchval("select penstock.prune_jobs($1)", [job]) == 0


@pytest.mark.contract("C-67")
async def test_a_job_with_an_open_dead_letter_is_never_pruned(archive: Archive) -> None:
    job = await archive.failed()
    await archive.h.pass_time(days=4000)
    assert "jobs" not in await archive.prune()
    letter = await dead_letters.of_job(archive.h.app.pool, job)
    assert letter is not None
    await dead_letters.triage(archive.h.app.pool, letter, Cause.DATA, operator="ann")
    assert "jobs" not in await archive.prune()

    await dead_letters.close(archive.h.app.pool, letter, "obsolete", operator="ann", without_replay=True)
    assert (await archive.prune())["jobs"] == 1
    assert await archive.count("dead_letters") == 1, "the record of the work outlives the job"
    assert await archive.count("dead_letter_events") == 2
    await archive.h.pass_time(days=61)
    assert (await archive.prune())["dead_letters"] == 1
    assert await archive.count("dead_letter_events") == 0


@pytest.mark.contract("C-67", "C-51")
async def test_the_original_and_its_replay_stay_until_the_letter_is_closed_and_go_in_order(archive: Archive) -> None:
    pool = archive.h.app.pool
    job = await archive.failed(key="k")
    again = await retry(pool, job, operator="ann")
    await archive.h.drain()
    await archive.h.pass_time(days=30)
    assert "jobs" not in await archive.prune()
    assert await archive.ids() == {job, again}

    letter = await dead_letters.of_job(pool, again)
    assert letter is not None
    await dead_letters.close(pool, letter, "ran", operator="ann")
    await pool.execute("update penstock.types set keep_finished = interval '40 days' where job_type = 'brief'")
    await archive.h.pass_time(days=9)
    assert "jobs" not in await archive.prune(), "neither is old enough"
    await archive.h.pass_time(days=2)
    assert (await archive.prune())["jobs"] == 2
    assert await archive.h.enqueue("brief", {"n": 0}, key="k") == job


@pytest.mark.contract("C-67")
async def test_an_original_outlives_no_replay_that_is_still_there(archive: Archive) -> None:
    pool = archive.h.app.pool
    job = await archive.failed()
    await archive.h.pass_time(days=6)
    again = await retry(pool, job, operator="ann")
    await archive.h.drain()
    letter = await dead_letters.of_job(pool, job)
    assert letter is not None
    await dead_letters.close(pool, letter, "ran", operator="ann")
    await archive.h.pass_time(days=2)  # the original is 8 days old, its replay 2
    assert await archive.prune() == {}
    assert await archive.ids() == {job, again}


@pytest.mark.contract("C-67")
async def test_the_audit_outlives_its_job_and_goes_in_its_own_time(archive: Archive) -> None:
    await archive.finished("audited", 2)
    kept = await archive.finished("lasting")
    await archive.h.pass_time(days=8)
    assert await archive.prune() == {"jobs": 2}
    assert await archive.count("job_events") == 9
    await archive.h.pass_time(days=60)
    assert (await archive.prune())["audit"] == 6
    rows = await archive.h.app.pool.fetch("select distinct job_id from penstock.job_events")
    assert [row[0] for row in rows] == kept, "a job that is still there keeps its trail"


@pytest.mark.contract("C-61", "C-67")
async def test_an_effect_is_not_forgotten_while_its_key_could_come_back(archive: Archive) -> None:
    await archive.finished("mailer", key="welcome-7")
    await archive.h.pass_time(days=8)
    assert await archive.prune() == {"jobs": 1}
    assert await archive.count("effects") == 1
    await archive.h.pass_time(days=25)  # the effect is 33 days old, its job's key is kept for 5 more
    assert "effects" not in await archive.prune()
    await archive.h.pass_time(days=6)
    assert (await archive.prune())["keys"] == 1
    assert (await archive.prune())["effects"] == 1
    assert await archive.count("effect_attempts") == 0


@pytest.mark.contract("C-61", "C-67")
async def test_an_effect_in_doubt_is_never_pruned(archive: Archive) -> None:
    pool = archive.h.app.pool
    await pool.execute(
        "insert into penstock.effects (effect_key, kind, token, state, intended_at, settled_at) values "
        "('mailer:mail:a', 'mail', 't', 'uncertain', penstock.now(), null), "
        "('mailer:mail:b', 'mail', 't', 'intended', penstock.now(), null), "
        "('mailer:mail:c', 'mail', 't', 'abandoned', penstock.now(), penstock.now())"
    )
    await pool.execute(
        "insert into penstock.effect_attempts (effect_key, at, action, outcome) "
        "values ('mailer:mail:a', penstock.now(), 'perform', 'x')"
    )
    await archive.h.pass_time(days=4000)
    assert (await archive.prune())["effects"] == 1, "the one that was given up"
    assert (await archive.count("effects"), await archive.count("effect_attempts")) == (2, 1)


@pytest.mark.contract("C-67")
async def test_records_go_by_the_settings(archive: Archive) -> None:
    pool = archive.h.app.pool
    await pool.execute("insert into penstock.skips (function, at, reason) values ('f', penstock.now(), 'idle')")
    await a_run(pool)
    seen = await raise_alert(pool, "clock_skew", Severity.ALERT, {"ms": 1})
    await raise_alert(pool, "clock_skew", Severity.ALERT, {"ms": 2})
    await acknowledge(pool, seen, who="ann")
    await archive.h.pass_time(days=19)
    assert await archive.prune() == {}
    await archive.h.pass_time(days=2)
    assert await archive.prune() == {"alerts": 1}
    assert await archive.count("alerts") == 1, "an alert that nobody has seen stays"
    assert (await archive.count("runs"), await archive.count("skips")) == (1, 1)
    await archive.h.pass_time(days=10)
    await archive.prune()
    assert (await archive.count("runs"), await archive.count("skips")) == (0, 0)


async def test_rates_that_say_nothing_any_more_are_forgotten(archive: Archive) -> None:
    await archive.h.app.pool.execute(
        "insert into penstock.rates (job_type, limit_key, starts, counts, expires_at) values "
        "('brief', ':past', '{}', '{}', penstock.now() + interval '1 hour'), "
        "('brief', ':live', '{}', '{}', penstock.now() + interval '1 day')"
    )
    assert await archive.prune() == {}
    await archive.h.pass_time(hours=2)
    assert await archive.prune() == {"rates": 1}
    assert await archive.count("rates", "limit_key = ':live'") == 1


@pytest.mark.contract("C-67")
async def test_rows_go_in_small_sets_each_committed_by_itself(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SET", 10)
    monkeypatch.setattr(store, "SCAN", 25)
    await archive.h.app.enqueue_many("brief", [{"n": n} for n in range(60)], keys=[f"k{n}" for n in range(60)])
    await archive.h.drain()
    await archive.h.pass_time(days=8)
    sets: list[int] = []
    await retention.prune(
        archive.h.app.pool, archive.settings, lambda what, total: sets.append(total) if what == "jobs" else None
    )
    assert sets == [10, 20, 25, 35, 45, 50, 60]
    transactions = await archive.h.app.pool.fetchval("select count(distinct xmin::text) from penstock.kept_keys")
    assert transactions == 7


async def test_two_at_once_share_the_work(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SET", 5)
    await archive.h.app.enqueue_many("brief", [{"n": n} for n in range(100)], keys=[f"k{n}" for n in range(100)])
    await archive.h.drain()
    await archive.h.pass_time(days=8)
    answers = await asyncio.gather(*(retention.prune(archive.h.app.pool, archive.settings) for _ in range(3)))
    assert sum(answer["jobs"] for answer in answers) == 100
    assert (await archive.count("jobs"), await archive.count("kept_keys")) == (0, 100)


async def test_it_refuses_to_run_inside_a_transaction(archive: Archive) -> None:
    async with archive.h.app.pool.acquire() as connection, connection.transaction():
        with pytest.raises(PenstockError, match="commits set by set"):
            await retention.prune(connection, archive.settings)


@pytest.mark.contract("C-67")
@pytest.mark.parametrize("role", ["penstock_worker", "penstock_operator"])
async def test_workers_and_operators_may_prune_and_nothing_younger_than_a_day(
    archive: Archive, role: str, role_dsn: Callable[[str], str]
) -> None:
    await archive.finished("audited", 2)
    await a_run(archive.h.app.pool)
    other = await asyncpg.connect(role_dsn(role))
    for statement in (
        "select penstock.prune_old('runs', interval '0', 1000)",
        "select penstock.prune_old('runs', null, 1000)",
        "select penstock.prune_audit(array(select event_id from penstock.job_events), interval '-1 year')",
        "select penstock.prune_jobs(array(select job_id from penstock.jobs))",
    ):
        assert await other.fetchval(statement) == 0, statement
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await other.execute("delete from penstock.jobs")
    await archive.h.pass_time(days=100)
    removed = await retention.prune(other, archive.settings)
    assert (removed["jobs"], removed["audit"]) == (2, 6)
    assert removed["runs"] >= 1
    await other.close()


@pytest.mark.contract("C-67")
async def test_nobody_else_may_prune(archive: Archive, role_dsn: Callable[[str], str]) -> None:
    for role in ("penstock_orchestrator", "penstock_frontend"):
        other = await asyncpg.connect(role_dsn(role))
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await retention.prune(other, archive.settings)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await other.execute("select penstock.prune_old('runs', interval '1 day', 1)")
        await other.close()


@pytest.mark.contract("C-67")
async def test_finished_rows_are_found_by_block_ranges_and_not_by_reading_the_table(archive: Archive) -> None:
    pool = archive.h.app.pool
    await pool.execute("alter table penstock.jobs disable trigger user")
    await pool.execute(
        "insert into penstock.jobs (job_id, created_at, updated_at, run_at, finished_at, max_attempts, ready, status, "
        "job_type, stage) select gen_random_uuid(), at, at, at, at, 1, true, 'completed', 'brief', 'run' "
        "from generate_series(1, 100000) as n, "
        "lateral (select penstock.now() - interval '9 days' + n * interval '8 seconds') as t(at)"
    )
    await pool.execute("analyze penstock.jobs")
    await pool.execute("select brin_summarize_new_values('penstock.jobs_finished')")
    cutoff = await pool.fetchval("select penstock.now() - min(keep_finished) from penstock.types")
    plan = json.loads(
        await pool.fetchval(f"explain (format json, analyze) {sql('retention/jobs')}", cutoff, store.SCAN)
    )
    text = json.dumps(plan)
    assert "jobs_finished" in text
    assert "Seq Scan" not in json.dumps(
        [node for node in _nodes(plan[0]["Plan"]) if node.get("Relation Name") == "jobs"]
    )


def _nodes(plan: dict[str, object]) -> list[dict[str, object]]:
    below = plan.get("Plans", [])
    assert isinstance(below, list)
    return [plan, *(node for child in below for node in _nodes(child))]
