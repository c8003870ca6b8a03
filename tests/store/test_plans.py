"""Every hot statement on a loaded table: the index it needs, no whole scan, a bounded number of pages.

Each runs with a generic and with a custom plan, and with statistics that are
fresh or as old as the first ten jobs.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store.claims import OBSTRUCTED_AFTER as BRIEFLY
from penstock.store.statements import sql
from tests.store import loaded
from tests.store.plans import Plan, explain
from tests.support import clusters

MODES = ["generic", "custom"]
SET = 100
START = [-32_768, datetime(1, 1, 1, tzinfo=UTC), UUID(int=0)]
RUNNABLE, NOT_DUE, EXPIRED, PRIMARY = "idx_outbox_runnable", "jobs_not_due", "idx_outbox_expired_lease", "jobs_pkey"
Ask = Callable[..., Plan]


@pytest.fixture(scope="module", params=["fresh", "stale"])
def table(
    request: pytest.FixtureRequest, shared_server: EmbeddedServer, admin: psycopg.Connection[Any]
) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a loaded database; every test undoes what it does."""
    database = clusters.clone(shared_server, admin)
    loaded.load(database.superuser_dsn, analysed=request.param == "fresh")
    with psycopg.connect(database.dsn) as connection:
        yield connection
    clusters.drop(database, admin)


@pytest.fixture(params=MODES)
def ask(request: pytest.FixtureRequest, table: psycopg.Connection[Any]) -> Ask:
    """Run a statement of the store in one plan mode."""
    return lambda name, *arguments: explain(table, sql(name), arguments, request.param)


def claims(table: psycopg.Connection[Any], number: int = SET) -> tuple[list[UUID], list[int]]:
    """Jobs that the worker `w` holds, with their fences."""
    rows = table.execute(
        "select job_id, claim_seq from penstock.jobs where status = 'processing' and claimed_by = 'w' limit %s",
        [number],
    ).fetchall()
    table.rollback()
    return [row[0] for row in rows], [row[1] for row in rows]


def take(ask: Ask, types: Sequence[str], limit: int = SET) -> Plan:
    if len(types) == 1:
        return ask("claims/take_of_one", types[0], limit, "w", uuid4(), *START, timedelta(minutes=5))
    priorities, created, ids = ([value] * len(types) for value in START)
    leases = [timedelta(minutes=5)] * len(types)
    return ask("claims/take", list(types), limit, "w", uuid4(), priorities, created, ids, leases)


@pytest.mark.parametrize("mode", MODES)
def test_a_generic_plan_knows_its_arguments_by_number_and_a_custom_one_by_value(
    mode: str, table: psycopg.Connection[Any]
) -> None:
    plan = explain(table, sql("claims/mine"), (uuid4(), 1, "w"), mode)
    (looked_up,) = [node for node in plan.nodes if node.get("Index Name") == PRIMARY]
    assert ("$1" in looked_up["Index Cond"]) is (mode == "generic")


@pytest.mark.contract("D-10", "D-30", "C-17", "C-21")
@pytest.mark.parametrize("beside", [[], ["absent"]], ids=["one", "several"])
def test_a_claim_reads_the_ready_index_alone(ask: Ask, beside: list[str]) -> None:
    plan = take(ask, [loaded.SERVED, *beside])
    assert plan.rows == SET
    assert plan.sequential == 0
    assert RUNNABLE in plan.indexes
    assert plan.indexes <= {RUNNABLE, PRIMARY}
    (lock,) = [node for node in plan.nodes if node["Node Type"] == "LockRows"]
    assert lock["Actual Rows"] == SET, "no row is locked that is not claimed"


@pytest.mark.contract("C-59")
@pytest.mark.parametrize("beside", [[], ["absent"]], ids=["one", "several"])
def test_a_claim_costs_the_same_whatever_waits_beside_it(ask: Ask, beside: list[str]) -> None:
    """20,000 future jobs that are more urgent and 10,000 due jobs of another type stand beside the served ones."""
    for _ in range(2):  # the first time, new versions find room on the pages of the old ones
        served, other = take(ask, [loaded.SERVED, *beside]), take(ask, [loaded.OTHER, *beside])
    assert served.buffers < 30 * SET
    assert abs(served.buffers - other.buffers) < 3 * SET


@pytest.mark.contract("C-59")
def test_a_claim_of_one_job_touches_a_handful_of_pages(ask: Ask) -> None:
    assert take(ask, [loaded.SERVED], limit=1).buffers < 150


def test_a_claim_of_a_type_without_jobs_touches_almost_nothing(ask: Ask) -> None:
    plan = take(ask, ["absent"])
    assert (plan.rows, plan.sequential) == (0, 0)
    assert plan.buffers < 30


@pytest.mark.parametrize(("job_type", "index"), [(loaded.GATED, RUNNABLE), (loaded.KEYED, "jobs_runnable_by_key")])
def test_a_claim_under_limits_reads_the_ready_indexes_alone(job_type: str, index: str, ask: Ask) -> None:
    plan = ask("claims/take_gated", job_type, "w", timedelta(minutes=5), SET, uuid4())
    assert (plan.rows, plan.sequential) == (SET, 0)
    assert index in plan.indexes
    assert plan.buffers < 40 * SET


def test_a_completion_finds_its_jobs_by_primary_key(ask: Ask, table: psycopg.Connection[Any]) -> None:
    ids, fences = claims(table)
    plan = ask("claims/complete", ids, fences, "w", None, BRIEFLY)
    assert plan.sequential == 0
    assert plan.indexes == {PRIMARY}
    assert plan.buffers < 30 * SET


@pytest.mark.parametrize("name", ["claims/renew", "claims/requeue", "claims/settled", "claims/kept", "claims/fail"])
def test_every_write_of_a_set_of_claims_goes_by_primary_key(
    name: str, ask: Ask, table: psycopg.Connection[Any]
) -> None:
    ids, fences = claims(table)
    per_job: dict[str, list[Any]] = {
        "claims/renew": [[timedelta(minutes=5)] * SET],
        "claims/requeue": [
            [timedelta(0)] * SET, [True] * SET, ["NETWORK_TIMEOUT"] * SET, ["again"] * SET, BRIEFLY, [True] * SET,
        ],
        "claims/settled": [],
        "claims/kept": [],
        "claims/fail": [
            ["RUNTIME_BUG"] * SET, ["m"] * SET, [False] * SET, ["non_retryable"] * SET, ["stack"] * SET, ["{}"] * SET,
            [1] * SET, [None] * SET, BRIEFLY,
        ],
    }  # fmt: skip
    plan = ask(name, ids, fences, "w", *per_job[name])
    assert plan.sequential == 0
    assert PRIMARY in plan.indexes
    assert plan.buffers < 150 * SET


@pytest.mark.contract("Q-56", "C-59")
def test_promotion_walks_over_due_jobs_only(ask: Ask) -> None:
    plan = ask("claims/promote", [loaded.SERVED], 1000)
    assert plan.sequential == 0
    assert plan.indexes == {NOT_DUE, PRIMARY}
    (lock,) = [node for node in plan.nodes if node["Node Type"] == "LockRows"]
    assert lock["Actual Rows"] == loaded.DUE, "the jobs that are due, not the 20,000 of next year"
    assert plan.buffers < 30 * loaded.DUE


def test_the_next_wake_reads_one_entry_of_each_index(ask: Ask) -> None:
    plan = ask("claims/next_wake", [loaded.SERVED, loaded.OTHER, loaded.GATED])
    assert plan.sequential == 0
    assert {NOT_DUE, EXPIRED} <= plan.indexes
    assert plan.buffers < 200


@pytest.mark.contract("C-13")
def test_a_suspect_is_found_by_its_own_index(ask: Ask) -> None:
    every = [loaded.SERVED, loaded.OTHER, loaded.GATED]
    plan = ask("claims/reserve", every, timedelta(seconds=30), timedelta(0), "w", [])
    assert (plan.rows, plan.sequential) == (1, 0)
    assert "jobs_suspect" in plan.indexes
    assert NOT_DUE not in plan.indexes
    assert plan.buffers < 200


@pytest.mark.contract("D-31", "C-17")
def test_the_reaper_walks_over_expired_claims_only(ask: Ask) -> None:
    plan = ask("claims/reap", 500)
    assert (plan.rows, plan.sequential) == (loaded.EXPIRED, 0)
    assert EXPIRED in plan.indexes
    assert plan.buffers < 100 * loaded.EXPIRED


@pytest.mark.parametrize("key", [None, "served:ready-1", "served:new"])
def test_an_enqueue_touches_a_handful_of_pages_with_a_key_or_without(key: str | None, ask: Ask) -> None:
    plan = ask("jobs/put", loaded.SERVED, '{"n": 1}', key, None, None, None, None, None, False, None)
    assert (plan.rows, plan.sequential) == (1, 0)
    assert plan.buffers < 120
    if key is not None:
        assert "jobs_idempotency_key" in plan.indexes


@pytest.mark.parametrize("name", ["claims/mine", "claims/progress", "claims/finish", "claims/cancel", "claims/advance"])
def test_a_single_claim_is_found_by_primary_key(name: str, ask: Ask, table: psycopg.Connection[Any]) -> None:
    (job_id,), (fence,) = claims(table, 1)
    extra: dict[str, list[Any]] = {"claims/cancel": ["note", BRIEFLY], "claims/advance": ["next", "run", None, False]}
    plan = ask(name, job_id, fence, "w", *extra.get(name, []))
    assert (plan.rows, plan.sequential) == (1, 0)
    assert plan.indexes == {PRIMARY}
    assert plan.buffers < 60


@pytest.mark.parametrize("table", ["fresh"], indirect=True)
def test_retention_finds_old_jobs_by_block_ranges(table: psycopg.Connection[Any]) -> None:
    plan = explain(table, sql("retention/jobs"), (datetime.now(UTC) - timedelta(days=1), 1000), "custom")
    assert plan.sequential == 0
    assert "jobs_finished" in plan.indexes


def test_what_waits_is_counted_from_the_indexes_of_waiting_jobs(ask: Ask) -> None:
    plan = ask("jobs/stats", 1000)
    assert plan.sequential == 0
    assert PRIMARY not in plan.indexes
