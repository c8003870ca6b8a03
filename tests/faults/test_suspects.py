"""A job that ends its process costs only itself: what the process held runs alone, until the culprit is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from tests.support.desk import Desk
    from tests.support.processes import WorkerProcess

APP: Final = "tests.support.poison_app:app"
INNOCENTS: Final = 60
MOST_DEATHS: Final = 12
ENDED: Final = {"completed", "failed", "canceled"}


def start(desk: Desk, *options: str) -> WorkerProcess:
    return desk.worker("--concurrency", "10", *options, app=APP)


def declare(desk: Desk) -> None:
    """Let the database know the types before the first job."""
    start(desk).ready().stop()


def put_all(desk: Desk, job_type: str, payloads: Sequence[dict[str, Any]]) -> list[UUID]:
    """Enqueue them with one statement: one claim may find them all."""
    rows = desk.owner.execute(
        "select penstock.enqueue(%s, payload) as job_id from jsonb_array_elements(%s::jsonb) as payload",
        (job_type, json.dumps(payloads)),
    ).fetchall()
    return [row["job_id"] for row in rows]


def statuses(desk: Desk, jobs: Sequence[UUID]) -> set[str]:
    rows = desk.owner.execute("select distinct status from penstock.jobs where job_id = any(%s)", (list(jobs),))
    return {row["status"] for row in rows}


def lived_through(desk: Desk, worker: WorkerProcess, jobs: Sequence[UUID]) -> bool:
    """Wait for the end of all jobs or of the worker; False: it was the worker's."""
    desk.until(lambda: worker.process.poll() is not None or statuses(desk, jobs) <= ENDED)
    return worker.process.poll() is None


def work_through(desk: Desk, jobs: Sequence[UUID], *options: str) -> int:
    """Start a worker again whenever it has died, until every job has ended; returns how often it died."""
    for deaths in range(MOST_DEATHS):
        worker = start(desk, *options)
        if lived_through(desk, worker, jobs):
            worker.stop()
            return deaths
        worker.ended()
        desk.pass_time(minutes=6)
    raise AssertionError(f"{MOST_DEATHS} processes died, and there are still jobs that have not ended")


def mix(desk: Desk, culprits: Sequence[dict[str, Any]], job_type: str = "mixed") -> tuple[list[UUID], list[UUID]]:
    """Culprits, which come first, and sixty innocents."""
    jobs = put_all(desk, job_type, [*culprits, *({"n": n} for n in range(INNOCENTS))])
    return jobs[: len(culprits)], jobs[len(culprits) :]


def dead(desk: Desk) -> dict[UUID, tuple[str, int]]:
    rows = desk.owner.execute("select job_id, error_class, attempts from penstock.dead_letters").fetchall()
    return {row["job_id"]: (row["error_class"], row["attempts"]) for row in rows}


@pytest.mark.contract("C-13", "Q-69")
@pytest.mark.parametrize("how", ["exit", "segfault", "memory"])
def test_a_job_that_ends_its_process_is_the_only_one_that_pays(desk: Desk, how: str) -> None:
    """Fault 43: ten run at once, and each may fail twice; together they would all be dead after the second process."""
    declare(desk)
    [culprit], innocents = mix(desk, [{"n": -1, "how": how}])

    deaths = work_through(desk, [culprit, *innocents])

    assert deaths == 2
    assert statuses(desk, innocents) == {"completed"}
    assert dead(desk) == {culprit: ("LEASE_EXPIRED", 2)}


@pytest.mark.contract("C-13")
def test_two_culprits_in_one_process_pay_each_for_itself(desk: Desk) -> None:
    declare(desk)
    culprits, innocents = mix(desk, [{"n": -1, "how": "exit"}, {"n": -2, "how": "segfault"}])

    deaths = work_through(desk, [*culprits, *innocents])

    assert deaths == 3  # the first one at once for both, then one for each
    assert statuses(desk, innocents) == {"completed"}
    assert dead(desk) == dict.fromkeys(culprits, ("LEASE_EXPIRED", 2))


@pytest.mark.contract("C-13", "C-12")
def test_a_stage_that_ends_its_process_is_charged_to_that_job_alone(desk: Desk) -> None:
    declare(desk)
    [culprit], innocents = mix(desk, [{"n": -1, "how": "exit"}], "staged")

    assert work_through(desk, [culprit, *innocents]) == 2

    assert statuses(desk, innocents) == {"completed"}
    assert dead(desk) == {culprit: ("LEASE_EXPIRED", 2)}
    letter = desk.row("select stage from penstock.dead_letters where job_id = %s", culprit)
    assert letter["stage"] == "second"


@pytest.mark.contract("C-13", "C-64")
def test_suspects_of_a_type_with_a_limit_run_alone_and_within_it(desk: Desk) -> None:
    declare(desk)
    [culprit], innocents = mix(desk, [{"n": -1, "how": "exit"}], "limited")

    assert work_through(desk, [culprit, *innocents]) == 2

    assert statuses(desk, innocents) == {"completed"}
    assert dead(desk) == {culprit: ("LEASE_EXPIRED", 2)}


@pytest.mark.contract("C-13", "D-49")
def test_a_type_that_counts_reclaims_loses_only_the_culprit_too(desk: Desk) -> None:
    declare(desk)
    [culprit], innocents = mix(desk, [{"n": -1, "how": "exit"}], "unhurried")

    assert work_through(desk, [culprit, *innocents]) == 2

    assert statuses(desk, innocents) == {"completed"}
    assert list(dead(desk)) == [culprit]
    assert desk.job(culprit)["attempt_count"] == 0


@pytest.mark.contract("C-13")
def test_a_suspect_that_fails_as_others_do_is_no_suspect_any_more(desk: Desk) -> None:
    declare(desk)
    [job] = put_all(desk, "regretful", [{"n": 1}])
    start(desk).ended()
    desk.pass_time(minutes=6)
    worker = start(desk)

    desk.until(lambda: desk.status(job) == "completed")

    assert worker.stop() == 0
    row = desk.job(job)
    assert (row["attempt_count"], row["suspect"], row["claim_seq"]) == (2, False, 3)
    assert len(worker.seen("suspect_alone")) == 1


@pytest.mark.contract("C-13", "C-64")
def test_suspects_of_a_paused_type_wait_until_it_goes_on(desk: Desk) -> None:
    declare(desk)
    [culprit, innocent] = put_all(desk, "mixed", [{"n": -1, "how": "exit"}, {"n": 1}])
    start(desk).ended()
    desk.owner.execute("update penstock.types set paused_at = penstock.now(), paused_by = 'o' where job_type = 'mixed'")
    desk.pass_time(minutes=6)
    worker = start(desk).ready()
    other = desk.put("unhurried", {"n": 2})
    desk.until(lambda: desk.status(other) == "completed")
    assert (desk.status(culprit), desk.status(innocent)) == ("queued", "queued")
    assert not worker.seen("suspect_alone")

    desk.owner.execute("update penstock.types set paused_at = null, paused_by = null where job_type = 'mixed'")
    desk.owner.execute("select pg_notify('penstock_control', '{\"gates\": true}')")
    worker.ended()
    desk.pass_time(minutes=6)

    assert work_through(desk, [culprit, innocent]) <= 1
    assert (desk.status(culprit), desk.status(innocent)) == ("failed", "completed")
