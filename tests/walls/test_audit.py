"""The audit withstands a worker: it is not forged, not switched off and not erased before its time."""

from typing import Final

import pytest

from tests.walls.conftest import OPERATOR, WORKER, Town

ALL_EVENTS: Final = "array(select event_id from penstock.job_events)"


def count(town: Town, table: str = "job_events") -> int:
    return int(town.one(f"select count(*) from penstock.{table}"))


def pass_time(town: Town, days: int) -> None:
    town.owner.execute(
        "insert into penstock.clock (shift) values (make_interval(days => %s)) "
        "on conflict (only_row) do update set shift = penstock.clock.shift + excluded.shift",
        [days],
    )


def finish_all(town: Town) -> None:
    """Every job has ended long ago and its letters are resolved, so that only the walls keep the rows."""
    town.owner.execute("set penstock.importing = 'on'")
    town.owner.execute("delete from penstock.jobs")
    town.owner.execute("reset penstock.importing")


@pytest.mark.contract("C-68", "C-67")
def test_a_worker_that_asks_for_no_retention_removes_nothing_younger_than_what_is_stored(town: Town) -> None:
    finish_all(town)
    before = count(town)
    assert before > 0
    worker = town.login(WORKER)
    pass_time(town, 300)
    for keep in ("interval '0'", "interval '-10 years'", "null"):
        worker.execute(f"select penstock.prune_audit({ALL_EVENTS}, {keep})")
        worker.execute(f"select penstock.prune_old('operator_events', {keep}, 1000)")
        worker.execute(f"select penstock.prune_old('dead_letters', {keep}, 1000)")
        worker.execute(f"select penstock.prune_old('spend', {keep}, 1000)")
    assert count(town) == before
    assert count(town, "spend") == 1
    assert count(town, "operator_events") > 0
    pass_time(town, 100)
    worker.execute(f"select penstock.prune_audit({ALL_EVENTS}, interval '0')")
    assert count(town) == 0, "after the stored year it goes: the wall is the span, not the right"


@pytest.mark.contract("C-68", "C-67")
def test_nothing_younger_than_a_day_goes_even_where_an_operator_keeps_records_for_a_day(town: Town) -> None:
    finish_all(town)
    town.login(OPERATOR).execute("select penstock.set_retention('audit', interval '1 day', 'ann')")
    before = count(town)
    for role in (WORKER, OPERATOR):
        town.login(role).execute(f"select penstock.prune_audit({ALL_EVENTS}, interval '0')")
        town.login(role).execute("select penstock.prune_old('runs', interval '0', 1000)")
        town.login(role).execute("select penstock.prune_effects(array(select effect_key from penstock.effects))")
    assert count(town) == before
    assert count(town, "runs") > 0
    assert count(town, "effects") > 0
    assert town.refusal(OPERATOR, "select penstock.set_retention('audit', interval '23 hours', 'ann')") == "22023"


@pytest.mark.contract("C-68", "C-67")
def test_a_policy_that_keeps_jobs_for_an_hour_keeps_them_for_a_day(town: Town) -> None:
    town.owner.execute("update penstock.types set keep_finished = interval '1 hour', keep_keys = interval '1 hour'")
    town.owner.execute("insert into penstock.clock (shift) values (interval '5 hours')")
    done = town.job("done")
    worker = town.login(WORKER)
    prune = "select penstock.keep_keys(array[%(job)s]::uuid[]), penstock.prune_jobs(array[%(job)s]::uuid[])"
    worker.execute(prune, {"job": done})
    assert town.one("select count(*) from penstock.jobs where job_id = %s", done) == 1
    pass_time(town, 1)
    worker.execute("select penstock.keep_keys(array[%s]::uuid[])", [done])
    worker.execute("select penstock.prune_jobs(array[%s]::uuid[])", [done])
    assert town.one("select count(*) from penstock.jobs where job_id = %s", done) == 0
    kept = town.one("select kept_until - penstock.now() from penstock.kept_keys where job_id = %s", done)
    assert kept.total_seconds() > 86_000


@pytest.mark.contract("C-68", "C-71", "A-07")
def test_the_moves_of_a_job_are_written_whatever_a_worker_does_to_its_type(town: Town) -> None:
    worker = town.login(WORKER)
    worker.execute("update penstock.types set audited = false where job_type = 'open'")
    assert town.refusal(WORKER, "update penstock.jobs set audited = false") == "42501"
    worker.execute("select penstock.enqueue('open', '{\"name\": \"new\"}')")
    new = town.job("new")
    assert town.one("select count(*) from penstock.job_events where job_id = %s", new) == 1
    worker.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'mine', claimed_at = "
        "penstock.now(), "
        "lease_expires_at = penstock.now() + interval '1 minute' where job_id = %s",
        [new],
    )
    assert town.one("select count(*) from penstock.job_events where job_id = %s", new) == 2


@pytest.mark.contract("C-68")
def test_the_parameter_of_pruning_opens_nothing_to_a_role_that_was_given_too_much(town: Town) -> None:
    town.owner.execute(f"grant delete on penstock.job_events to {WORKER}")
    town.owner.execute(f"grant insert, delete on penstock.jobs to {WORKER}")
    erase = "set local penstock.pruning = 'on'; delete from penstock.job_events"
    assert town.refusal(WORKER, erase) == "PS002"
    assert town.refusal("owner", erase) is None
    remove = "set local penstock.importing = 'on'; delete from penstock.jobs where status = 'queued'"
    assert town.refusal(WORKER, remove) == "PS001"
    assert town.refusal("owner", remove) is None
