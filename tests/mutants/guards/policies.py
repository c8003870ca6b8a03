"""Who may loosen a policy, lift a pause, or spend: not a worker."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import WALLS, Guard

POLICIES: Final = "tests/walls/test_policies.py"
WORKERS: Final = "tests/walls/test_workers.py"

GUARDS: Final = (
    Guard(
        "a worker does not loosen audit",
        f"{WALLS}/03_policies.sql",
        "if old.audited and not new.audited then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker does not loosen the steps",
        f"{WALLS}/03_policies.sql",
        "if old.steps_required and not new.steps_required then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker does not loosen the retention of jobs",
        f"{WALLS}/03_policies.sql",
        "if coalesce(new.keep_finished < old.keep_finished, old.keep_finished is null and "
        "new.keep_finished is not null) then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker does not loosen the retention of keys",
        f"{WALLS}/03_policies.sql",
        "if coalesce(new.keep_keys < old.keep_keys, old.keep_keys is null and new.keep_keys is not null) then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker does not loosen enqueue_role",
        f"{WALLS}/03_policies.sql",
        "if old.enqueue_role is not null and new.enqueue_role is distinct from old.enqueue_role then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker does not loosen the limit of running jobs",
        f"{WALLS}/03_policies.sql",
        "if old.max_running is not null and coalesce(new.max_running > old.max_running, true) then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker does not loosen the rate",
        f"{WALLS}/03_policies.sql",
        "if penstock.looser_rate(new.rate_count, new.rate_period, old.rate_count, old.rate_period) then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker does not loosen the limit of a key",
        f"{WALLS}/03_policies.sql",
        "if old.key_max_running is not null and coalesce(new.key_max_running > old.key_max_running, true) then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker does not loosen the rate of a key",
        f"{WALLS}/03_policies.sql",
        "if penstock.looser_rate(new.key_rate_count, new.key_rate_period, old.key_rate_count, "
        "old.key_rate_period) then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker does not loosen the daily cap",
        f"{WALLS}/03_policies.sql",
        "if penstock.daily_cap(old.policy) is not null\n"
        "       and coalesce(penstock.daily_cap(new.policy) > penstock.daily_cap(old.policy), true) then",
        "if false then",
        (f"{POLICIES}::test_a_worker_cannot_loosen_and_an_operator_can",),
    ),
    Guard(
        "a worker lifts no operator's pause",
        f"{WALLS}/03_policies.sql",
        "if old.paused_by = 'penstock' and old.pause_reason = 'SPEND_CAP' and new.paused_at is null",
        "if new.paused_at is null",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "a cap without room stays",
        f"{WALLS}/03_policies.sql",
        "and s.job_type = old.job_type), true) then",
        "and s.job_type = old.job_type), true) or true then",
        (f"{POLICIES}::test_the_stored_cap_stops_a_type_whatever_cap_the_worker_names",),
    ),
    Guard(
        "the stored cap counts",
        f"{WALLS}/03_policies.sql",
        "select least(p_cap, penstock.daily_cap(t.policy) * 1000000)::bigint into cap",
        "select p_cap into cap",
        (f"{POLICIES}::test_the_stored_cap_stops_a_type_whatever_cap_the_worker_names",),
    ),
    Guard(
        "spend is never negative",
        f"{WALLS}/03_policies.sql",
        "if least(p_input, p_output, p_cost, p_calls) < 0 then",
        "if false then",
        (f"{WORKERS}::test_nobody_can",),
    ),
)
