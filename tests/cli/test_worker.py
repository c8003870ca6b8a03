"""`penstock worker` as a real process: how it starts, works, and ends."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.desk import Desk


def held(desk: Desk, tmp_path: Path, job_type: str = "held") -> tuple[Any, Path]:
    """A job that runs until the file of the answer is there."""
    gate = tmp_path / "gate"
    return desk.put(job_type, {"until": str(gate), "stopped": str(tmp_path / "stopped")}), gate


@pytest.mark.contract("D-44")
def test_a_first_signal_finishes_what_runs_and_exits_with_0(desk: Desk, tmp_path: Path) -> None:
    worker = desk.worker("--types", "held").ready()
    job_id, gate = held(desk, tmp_path)
    worker.wait_for("job_claimed", job_id=str(job_id))

    worker.send(signal.SIGTERM)
    worker.wait_for("worker_stopping", reason="SIGTERM", running=1)
    late = desk.put("held", {"until": str(gate)})
    gate.touch()

    assert worker.ended() == 0
    assert desk.status(job_id) == "completed"
    assert desk.status(late) == "queued"
    assert desk.row("select stopped_at is not null as stopped from penstock.workers")["stopped"]


def test_ctrl_c_is_as_good_as_sigterm_and_a_name_silent_for_a_minute_may_be_taken(desk: Desk) -> None:
    desk.name_taken("one", seconds_ago=61)
    worker = desk.worker("--types", "noop", "--name", "one").ready()
    worker.send(signal.SIGINT)
    assert worker.ended() == 0
    assert worker.seen("worker_stopped")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_it_at_once_and_its_job_runs_again(
    desk: Desk, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    worker = desk.worker("--types", "held").ready()
    job_id, gate = held(desk, tmp_path)
    worker.wait_for("job_claimed", job_id=str(job_id))
    worker.send(signal.SIGTERM)
    worker.wait_for("worker_stopping")

    worker.send(number)

    assert worker.ended() == code
    assert desk.status(job_id) == "processing"
    gate.touch()
    desk.pass_time(minutes=6)
    second = desk.worker("--types", "held")
    second.wait_for("job_completed", job_id=str(job_id))
    assert desk.job(job_id)["attempt_count"] == 1


def test_a_second_signal_works_while_a_handler_blocks_the_event_loop(desk: Desk, tmp_path: Path) -> None:
    worker = desk.worker("--types", "blocking").ready()
    job_id, _ = held(desk, tmp_path, "blocking")
    worker.wait_for("job_claimed", job_id=str(job_id))
    worker.send(signal.SIGTERM)
    worker.send(signal.SIGINT)
    assert worker.ended() in (128 + signal.SIGINT, 128 + signal.SIGTERM)


def test_a_handler_that_outlives_the_grace_is_stopped_and_its_job_given_back_uncharged(
    desk: Desk, tmp_path: Path
) -> None:
    worker = desk.worker("--types", "held", "--grace-seconds", "0.05").ready()
    job_id, _ = held(desk, tmp_path)
    worker.wait_for("job_claimed", job_id=str(job_id))

    assert worker.stop() == 0

    job = desk.job(job_id)
    assert (job["status"], job["attempt_count"]) == ("queued", 0)
    assert (tmp_path / "stopped").exists()


def test_a_thread_runs_beside_others_and_does_not_hold_up_the_end(desk: Desk, tmp_path: Path) -> None:
    worker = desk.worker("--types", "threaded,noop", "--grace-seconds", "0.05").ready()
    job_id, _ = held(desk, tmp_path, "threaded")
    worker.wait_for("job_claimed", job_id=str(job_id))
    quick = desk.put("noop")
    worker.wait_for("job_completed", job_id=str(quick))
    assert worker.stop() == 0
    assert desk.status(job_id) == "queued"


@pytest.mark.contract("C-06")
def test_canceling_a_running_job_stops_its_handler(desk: Desk, penstock: Any, tmp_path: Path) -> None:
    worker = desk.worker("--types", "held").ready()
    job_id, _ = held(desk, tmp_path)
    worker.wait_for("job_claimed", job_id=str(job_id))

    done = penstock("jobs", "cancel", str(job_id), "--reason", "no longer wanted")

    assert done.exit_code == 0, done.output
    worker.wait_for("lease_lost", job_id=str(job_id))
    assert (tmp_path / "stopped").exists()
    assert desk.status(job_id) == "canceled"


@pytest.mark.contract("D-52")
def test_a_job_canceled_between_its_claim_and_its_start_is_not_processed(
    desk: Desk, penstock: Any, tmp_path: Path
) -> None:
    worker = desk.worker("--types", "held,noop", "--concurrency", "1").ready()
    first, gate = held(desk, tmp_path)
    worker.wait_for("job_claimed", job_id=str(first))
    waiting = desk.put("noop")

    assert penstock("jobs", "cancel", str(waiting)).exit_code == 0
    gate.touch()

    worker.wait_for("job_completed", job_id=str(first))
    assert worker.stop() == 0
    assert worker.seen("job_completed", job_id=str(waiting)) == []
    assert desk.status(waiting) == "canceled"


def test_a_process_that_holds_too_much_memory_replaces_itself_and_goes_on(desk: Desk) -> None:
    worker = desk.worker("--types", "hoarder,noop", "--rss-limit-mb", "90").ready()
    fat = desk.put("hoarder", {"bytes": 60_000_000})
    worker.wait_for("job_completed", job_id=str(fat))
    desk.put("noop")

    worker.wait_for("process_recycled")
    worker.wait_for("worker_started", count=2)
    small = desk.put("noop")

    worker.wait_for("job_completed", job_id=str(small))
    assert worker.process.poll() is None
    rows = desk.owner.execute("select pid from penstock.workers").fetchall()
    assert [row["pid"] for row in rows] == [worker.pid]
    assert worker.stop() == 0


def test_a_crash_point_is_armed_from_the_environment(desk: Desk) -> None:
    worker = desk.worker("--types", "noop", env={"PENSTOCK_CRASH_AT": "after_claim"}).ready()
    job_id = desk.put("noop")
    assert worker.ended() == -signal.SIGKILL
    assert desk.status(job_id) == "processing"


def test_a_hundred_handlers_at_once_stay_under_80_mb_and_flat(desk: Desk) -> None:
    options = ("--types", "noop", "--concurrency", "100", "--log-level", "warning", "--poll-seconds", "0.2")
    worker = desk.worker(*options, cold=True)
    desk.until(lambda: desk.owner.execute("select true from penstock.types where job_type = 'noop'").fetchone())
    early = _rss_after(desk, worker.pid, 5_000)
    late = _rss_after(desk, worker.pid, 20_000)
    assert late < 80
    maps = Path(f"/proc/{worker.pid}/maps").read_text()
    assert "sqlalchemy" not in maps
    assert "psycopg" not in maps
    assert late - early < 5


def _rss_after(desk: Desk, pid: int, jobs: int) -> float:
    desk.owner.execute("select count(penstock.enqueue('noop')) from generate_series(1, %s)", (jobs,))
    desk.until(
        lambda: not desk.owner.execute("select true from penstock.jobs where status <> 'completed' limit 1").fetchone()
    )
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


def test_what_a_worker_has_imported_is_not_looked_through_for_garbage(desk: Desk, tmp_path: Path) -> None:
    worker = desk.worker("--types", "noop,weigh", cold=True).ready()
    worker.wait_for("job_completed", job_id=str(desk.put("noop", {})))  # the start is behind it

    note = tmp_path / "note"
    worker.wait_for("job_completed", job_id=str(desk.put("weigh", {"note": str(note)})))

    assert int(note.read_text(encoding="utf-8")) > 10_000
