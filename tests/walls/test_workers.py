"""A login of penstock_worker that runs any SQL it likes: what it is refused, with the owner's success as control."""

from typing import Final

import pytest

from tests.walls.conftest import WORKER, Town

JOB: Final = "(select job_id from penstock.jobs where payload ->> 'name' = '{}')"
ENDED: Final = "finished_at = penstock.now(), lease_expires_at = null"

# What is tried, by what it would mean, and the clause that forbids it.
REFUSED: Final = {
    "cancel a queued job": f"update penstock.jobs set status = 'canceled', {ENDED} where job_id = "
    f"{JOB.format('queued')}",
    "cancel a parked job": f"update penstock.jobs set status = 'canceled', {ENDED} where job_id = "
    f"{JOB.format('parked')}",
    "cancel a job of another login": (
        f"update penstock.jobs set status = 'canceled', {ENDED} where job_id = {JOB.format('foreign')}"
    ),
    "rewrite a job that has ended": (
        f"update penstock.jobs set last_error_code = 'OTHER' where job_id = {JOB.format('dead')}"
    ),
    "move the end of a job": (
        f"update penstock.jobs set finished_at = '2000-01-01' where job_id = {JOB.format('done')}"
    ),
    "take a claim over without a claim": (
        f"update penstock.jobs set claimed_by = 'mine' where job_id = {JOB.format('foreign')}"
    ),
    "move a fence without a claim": (
        f"update penstock.jobs set claim_seq = claim_seq + 9 where job_id = {JOB.format('foreign')}"
    ),
    "put a queued job off": (
        f"update penstock.jobs set run_at = '9000-01-01' where job_id = {JOB.format('queued')}"
    ),
    "set a queued job aside for years": (
        f"update penstock.jobs set reserved_until = '9000-01-01' where job_id = {JOB.format('queued')}"
    ),
    "lift a pause": "update penstock.types set paused_at = null, paused_by = null, pause_reason = null "
    "where job_type = 'paused'",
    "pause a type": "update penstock.types set paused_at = penstock.now(), paused_by = 'x' where job_type = 'open'",
    "close a breaker by hand": "update penstock.types set breaker = 'closed' where job_type = 'open'",
    "zero what was spent": "update penstock.spend set cost_micros = 0",
    "add spend by hand": "insert into penstock.spend (day, job_type, provider, model, execution, cost_micros) "
    "values ('2026-01-01', 'wall', 'p', 'm', 'async', -9)",
    "forget a rate": "delete from penstock.rates",
    "lower the attempts of a stage": "update penstock.stages set attempts = 0",
    "rewrite the result of a stage": "update penstock.stages set result = '{}'",
    "undo an effect": "update penstock.effects set state = 'abandoned', done_at = null",
    "rewrite the result of an effect": "update penstock.effects set result = '{}'",
    "change the token of an effect": "update penstock.effects set token = 'other'",
    "forget how often an effect was tried": "update penstock.effects set perform_count = 0",
    "lower the counts of a run": "update penstock.runs set failed_count = 0",
    "give a run to another worker": "update penstock.runs set worker_id = 'other'",
    "open a run again": "update penstock.runs set finished_at = null",
    "settle an item again": "update penstock.batch_items set state = 'failed'",
    "zero the cost of an item": "update penstock.batch_items set cost_micros = 0",
    "withdraw an erasure": "update penstock.batches set erase_asked_at = null",
    "withdraw the cancel of a batch": "update penstock.batches set cancel_asked_at = null",
    "change the provider of a batch": "update penstock.batches set provider = 'other'",
    "change the provider's batch": "update penstock.batches set provider_batch_id = 'other'",
    "abandon a submitted batch": "update penstock.batches set state = 'abandoned'",
    "triage a dead letter": "update penstock.dead_letters set state = 'triaged', cause = 'data'",
    "close a dead letter": "update penstock.dead_letters set state = 'resolved', notes = 'x', closed_at = "
    "penstock.now()",
    "forge a step": "insert into penstock.dead_letter_events (dead_letter_id, step, operator) "
    "select dead_letter_id, 'triaged', 'ann' from penstock.dead_letters",
    "acknowledge an alert": "update penstock.alerts set acknowledged_at = penstock.now(), acknowledged_by = 'ann'",
    "switch a schedule off": "update penstock.schedules set enabled = false",
    "stop another login's worker": "update penstock.workers set stopped_at = penstock.now() where worker_id = 'other'",
    "take another login's name": "update penstock.workers set instance = gen_random_uuid() where worker_id = 'other'",
    "claim to be another login": "update penstock.workers set db_user = 'another_login' where worker_id = 'mine'",
    "keep the audit for a day only": "update penstock.retention set keep = interval '1 day'",
    "delete the audit": "set local penstock.pruning = 'on'; delete from penstock.job_events",
    "forge an audit row": "insert into penstock.job_events (job_id, at, to_status, stage, attempt, claim_seq) "
    f"select {JOB.format('queued')}, penstock.now(), 'completed', 'run', 1, 1",
    "delete a job": f"delete from penstock.jobs where job_id = {JOB.format('done')}",
}  # fmt: skip
# Refused to everybody: the owner meets the same rule.
REFUSED_TO_ALL: Final = {
    "lower the attempts of a job": f"update penstock.jobs set attempt_count = 0 where job_id = {JOB.format('held')}",
    "lower the reclaims of a job": f"update penstock.jobs set reclaim_count = 0 where job_id = {JOB.format('held')}",
    "lower a fence": f"update penstock.jobs set claim_seq = 0 where job_id = {JOB.format('held')}",
    "revive a job": f"update penstock.jobs set status = 'queued', finished_at = null where job_id = "
    f"{JOB.format('done')}",
    "spend less than nothing": "select penstock.add_spend('wall', 'p', 'm', '', '', 'async', 0, 0, -1, null, 1)",
}  # fmt: skip
# What a worker does all day; the walls above must not stand in its way.
ALLOWED: Final = {
    "cancel its own job": f"update penstock.jobs set status = 'canceled', {ENDED} where job_id = {JOB.format('held')}",
    "complete": f"update penstock.jobs set status = 'completed', {ENDED} where job_id = {JOB.format('held')}",
    "charge an attempt": f"update penstock.jobs set attempt_count = attempt_count + 1 where job_id = "
    f"{JOB.format('held')}",
    "renew a lease": f"update penstock.jobs set lease_expires_at = lease_expires_at + interval '1 hour' where "
    f"job_id = {JOB.format('held')}",
    "promote": f"update penstock.jobs set ready = true where job_id = {JOB.format('later')}",
    "claim": f"update penstock.jobs set status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'mine', "
    f"claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '1 hour' where job_id = "
    f"{JOB.format('queued')}",
    "beat": "update penstock.workers set heartbeat_at = penstock.now() where worker_id = 'mine'",
    "count": "update penstock.runs set claimed_count = claimed_count + 1",
    "spend": "select penstock.add_spend('wall', 'p', 'm', '', '', 'async', 1, 1, 1, null, 1)",
    "raise an alert": "insert into penstock.alerts (kind, severity, subject) values ('x', 'info', '{}')",
    "announce an alert": "update penstock.alerts set announced_at = penstock.now(), announce_tries = 1",
    "poll a batch": "update penstock.batches set polled_at = penstock.now(), poll_failures = 1",
    "collect a batch": "update penstock.batches set state = 'collected', collected_at = penstock.now()",
}  # fmt: skip


@pytest.mark.contract("C-68", "Q-16")
@pytest.mark.parametrize("what", REFUSED)
def test_a_worker_cannot(what: str, town: Town) -> None:
    assert town.refusal("owner", REFUSED[what]) is None, "no control: the owner cannot either"
    assert town.refusal(WORKER, REFUSED[what]) == "42501"


@pytest.mark.contract("C-68", "C-03")
@pytest.mark.parametrize("what", REFUSED_TO_ALL)
def test_nobody_can(what: str, town: Town) -> None:
    assert town.refusal("owner", REFUSED_TO_ALL[what]) in ("PS001", "22023")
    assert town.refusal(WORKER, REFUSED_TO_ALL[what]) in ("PS001", "22023")


@pytest.mark.contract("C-68")
@pytest.mark.parametrize("what", ALLOWED)
def test_a_worker_can(what: str, town: Town) -> None:
    assert town.refusal(WORKER, ALLOWED[what]) is None


@pytest.mark.contract("C-68", "C-02")
def test_a_worker_buries_only_what_has_failed_and_only_once(town: Town) -> None:
    bury = (
        "select penstock.bury(job_id, {}, 'open', 'run', 'RUNTIME_BUG', false, 'non_retryable', 'x', '{{}}', "
        "1, null, null) "
        "from penstock.jobs where payload ->> 'name' = '{}'"
    )
    letter = "select row_to_json(d)::text from penstock.dead_letters d"
    before = town.one(letter)
    for replay_of, name in (("null", "queued"), ("null", "held"), ("null", "dead"), (JOB.format("dead"), "done")):
        assert town.refusal(WORKER, bury.format(replay_of, name)) == "PS001"
    assert town.one(letter) == before
    end = f"update penstock.jobs set status = 'failed', {ENDED}, last_error_code = 'X', last_error_at = penstock.now() "
    with town.login(WORKER).transaction(force_rollback=True):
        town.login(WORKER).execute(f"{end} where job_id = {JOB.format('held')}")
        town.login(WORKER).execute(bury.format(JOB.format("dead"), "held"))
        found = town.login(WORKER).execute(
            "select count(*) from penstock.dead_letters where job_id = %s", [town.job("held")]
        )
        assert found.fetchone() == (1,), "whose replay it is stands in the job's own row, not in what the caller says"


@pytest.mark.contract("C-68", "C-02")
def test_a_job_that_a_worker_fails_by_hand_has_its_dead_letter_or_does_not_fail(town: Town) -> None:
    silent = (
        f"update penstock.jobs set status = 'failed', {ENDED}, last_error_code = 'X', last_error_at = penstock.now() "
        f"where job_id = {JOB.format('held')}"
    )
    assert town.refusal(WORKER, silent) == "PS001"
    assert town.refusal("owner", silent) is None


@pytest.mark.contract("C-68", "A-07")
def test_a_worker_cannot_lend_the_function_of_a_trigger_to_a_table_of_its_own(town: Town) -> None:
    """The audit's function writes as the owner: on a table of the attacker's it would write what the attacker likes."""
    rows = town.owner.execute(
        "select n.nspname || '.' || p.proname, r.rolname from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "cross join pg_roles r where n.nspname in ('penstock', 'rewrite', 'review', 'vault') "
        "and p.prorettype = 'trigger'::regtype and has_function_privilege(r.oid, p.oid, 'execute') "
        "and r.rolname like 'penstock\\_%'"
    ).fetchall()
    assert rows == []
    count = town.one("select count(*) from pg_proc where prorettype = 'trigger'::regtype and proname = 'audit'")
    assert count == 1, "the question above finds nothing because nothing may, not because there is nothing"
