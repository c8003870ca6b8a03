"""Several worker processes under one supervisor, all of them real."""

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.exits import BUG
from penstock.engine import shared_folder
from penstock.engine.process import RECYCLE, Orders
from penstock.engine.supervisor import Slot
from tests.support.desk import Desk
from tests.support.processes import WorkerProcess, run_penstock
from tests.support.servers import wait_for_death

TWO = ("--types", "noop,held", "--processes", "2", "--name", "crew")


@pytest.fixture
def crew(desk: Desk) -> WorkerProcess:
    """Two processes that work."""
    started = desk.worker(*TWO)
    started.wait_for("worker_started", count=2)
    return started


def alive(desk: Desk) -> list[tuple[str, int]]:
    rows = desk.owner.execute("select worker_id, pid from penstock.workers where stopped_at is null order by 1")
    return [(row["worker_id"], row["pid"]) for row in rows]


@pytest.mark.contract("C-54")
def test_a_process_that_dies_gets_a_successor_of_its_name_and_one_signal_stops_them_all(
    desk: Desk, tmp_path: Path
) -> None:
    host = socket.gethostname()[:60]
    desk.name_taken(f"{host}-1")
    crew = desk.worker("--types", "noop,held", "--processes", "2")
    crew.wait_for("worker_started", count=2)
    before = {name: pid for name, pid in alive(desk) if pid != os.getpid()}
    assert list(before) == [f"{host}-2", f"{host}-3"]

    os.kill(before[f"{host}-3"], signal.SIGKILL)

    crew.wait_for("process_ended", worker_id=f"{host}-3", exit_code=-signal.SIGKILL)
    crew.wait_for("worker_started", count=2, worker_id=f"{host}-3")
    after = {name: pid for name, pid in alive(desk) if pid != os.getpid()}
    assert list(after) == list(before)
    assert after[f"{host}-2"] == before[f"{host}-2"]
    assert after[f"{host}-3"] != before[f"{host}-3"]

    gate = tmp_path / "gate"
    job_id = desk.put("held", {"until": str(gate)})
    crew.wait_for("job_claimed", job_id=str(job_id))
    crew.send(signal.SIGINT)
    crew.wait_for("worker_stopping", count=2)
    gate.touch()
    assert crew.ended() == 0
    assert desk.status(job_id) == "completed"
    assert [name for name, pid in alive(desk) if pid != os.getpid()] == []


@pytest.mark.contract("C-54", "C-48")
@pytest.mark.parametrize("part", ["recorder", "line to the supervisor"])
def test_a_process_that_has_lost_a_part_ends_with_its_name_in_the_log_and_is_replaced(
    desk: Desk, part: str, tmp_path: Path
) -> None:
    crew = desk.worker("--types", "meddling,noop", "--processes", "2", "--name", "crew")
    crew.wait_for("worker_started", count=2)

    desk.put("meddling", {"part": f"penstock-{part}", "once": str(tmp_path / "once")})

    crew.wait_for("part_ended", what=part)
    name = crew.wait_for("worker_stopping", reason=f"{part} ended")["worker_id"]
    crew.wait_for("process_ended", worker_id=name, exit_code=BUG)
    crew.wait_for("worker_started", count=2, worker_id=name)
    job_id = desk.put("noop", {})
    crew.wait_for("job_completed", job_id=str(job_id))
    crew.send(signal.SIGTERM)
    assert crew.ended() == 0


def test_a_worker_by_itself_that_has_lost_a_part_ends_with_a_code_of_its_own(desk: Desk, tmp_path: Path) -> None:
    worker = desk.worker("--types", "meddling", "--name", "alone").ready()
    desk.put("meddling", {"part": "penstock-recorder", "once": str(tmp_path / "once")})
    worker.wait_for("part_ended", what="recorder")
    assert worker.ended() == BUG


def test_a_second_signal_kills_them_all(desk: Desk, crew: WorkerProcess, tmp_path: Path) -> None:
    job_id = desk.put("held", {"until": str(tmp_path / "never")})
    crew.wait_for("job_claimed", job_id=str(job_id))
    crew.send(signal.SIGTERM)
    crew.wait_for("supervisor_stopping")

    crew.send(signal.SIGTERM)

    assert crew.ended() == 143
    for pid in crew.children():
        wait_for_death(pid)
    assert desk.status(job_id) == "processing"


def test_processes_whose_supervisor_was_killed_finish_and_stop(desk: Desk, crew: WorkerProcess, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = desk.put("held", {"until": str(gate)})
    crew.wait_for("job_claimed", job_id=str(job_id))

    crew.send(signal.SIGKILL)
    crew.wait_for("worker_stopping", count=2, reason="supervisor gone")
    gate.touch()

    for pid in crew.children():
        wait_for_death(pid)
    assert desk.status(job_id) == "completed"


def test_a_process_over_its_memory_is_replaced_under_its_name(desk: Desk) -> None:
    crew = desk.worker("--types", "noop,hoarder", "--processes", "2", "--name", "crew", "--rss-limit-mb", "90")
    crew.wait_for("worker_started", count=2)
    fat = desk.put("hoarder", {"bytes": 60_000_000})
    crew.wait_for("job_completed", job_id=str(fat))
    slot = crew.wait_for("job_claimed", job_id=str(fat))["worker_id"]

    for _ in range(4):  # whoever is over its budget notices after the next round
        desk.put("noop")
    desk.owner.execute("select pg_notify('penstock_jobs', '')")

    crew.wait_for("process_recycled", worker_id=slot)
    crew.wait_for("process_ended", worker_id=slot, exit_code=RECYCLE)
    crew.wait_for("worker_started", count=2, worker_id=slot)


def test_what_is_wrong_for_all_is_said_once_and_ends_the_supervisor(superuser_dsn: str) -> None:
    done = run_penstock(["worker", "tests.support.sample_app:app", *TWO], superuser_dsn)
    assert done.returncode == 6
    assert done.stderr.count("is a superuser") == 1


def test_a_name_in_use_ends_the_supervisor(desk: Desk) -> None:
    desk.name_taken("crew-1")
    done = run_penstock(["worker", "tests.support.sample_app:app", *TWO], desk.worker_dsn)
    assert done.returncode == 6
    assert "'crew-1' belongs to a worker that is alive" in done.stderr


def test_the_folder_of_a_supervisor_that_was_killed_is_cleared_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("penstock-metrics-4194305-dead", f"penstock-metrics-{os.getpid()}-alive", "penstock-metrics-other"):
        (tmp_path / name).mkdir()
    made = shared_folder.make()
    assert {path.name for path in tmp_path.iterdir()} == {
        f"penstock-metrics-{os.getpid()}-alive",
        "penstock-metrics-other",
        made.name,
    }


@pytest.fixture
def delays() -> Callable[..., list[float]]:
    def after(*ends: tuple[int, float]) -> list[float]:
        slot = Slot(1, Orders("a:b", "dsn"))
        return [slot.after(code, lived) for code, lived in ends]

    return after


def test_a_process_that_keeps_crashing_is_started_ever_more_slowly(delays: Callable[..., list[float]]) -> None:
    assert delays(*[(1, 0.5)] * 7) == [1, 2, 4, 8, 16, 30, 30]


def test_a_long_life_forgives_earlier_crashes(delays: Callable[..., list[float]]) -> None:
    assert delays((1, 0.5), (1, 0.5), (-9, 61), (1, 0.5)) == [1, 2, 1, 2]


def test_a_recycled_process_is_followed_at_once_unless_it_did_nothing_else(delays: Callable[..., list[float]]) -> None:
    assert delays((RECYCLE, 11), (RECYCLE, 0.5), (RECYCLE, 0.5), (RECYCLE, 11)) == [0, 1, 2, 0]
