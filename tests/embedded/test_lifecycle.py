"""Who starts the server, who stops it, and what a kill -9 leaves behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.embedded import EmbeddedServer, EmbeddedServerError, processes
from tests.support.servers import wait_for_death

Script = Callable[..., "subprocess.Popen[str]"]

HOLD_UNTIL_TOLD = """
from penstock.embedded import ensure_started
server = ensure_started()
print(server.status().pid, flush=True)
input()
"""


def query(server: EmbeddedServer, statement: str) -> Any:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchone() if cursor.description else None


def told(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def end_cleanly(process: "subprocess.Popen[str]") -> None:
    process.communicate("\n", timeout=30)
    assert process.returncode == 0


def postmaster_killed(server: EmbeddedServer) -> int:
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for_death(pid)
    return pid


def test_the_last_holder_to_let_go_stops_the_server(embedded: EmbeddedServer) -> None:
    second = EmbeddedServer(embedded.path)
    embedded.hold()
    second.hold()

    embedded.release()
    assert second.status().running

    second.release()
    assert not second.status().running


def test_holding_twice_counts_once(embedded: EmbeddedServer) -> None:
    embedded.hold()
    embedded.hold()
    embedded.release()
    assert not embedded.status().running
    embedded.release()


def test_a_pinned_server_outlives_its_holders(embedded: EmbeddedServer) -> None:
    embedded.start(pin=True)
    embedded.hold()
    embedded.release()
    assert embedded.status().running

    assert embedded.stop(force=False)
    assert not embedded.status().running
    assert not embedded.status().pinned


def test_a_polite_stop_leaves_the_server_to_those_who_use_it(embedded: EmbeddedServer) -> None:
    embedded.start(pin=True)
    holder = EmbeddedServer(embedded.path)
    holder.hold()

    assert not embedded.stop(force=False)
    assert embedded.status().running

    holder.release()
    assert not embedded.status().running


def test_a_forced_stop_stops_it_under_its_holders(embedded: EmbeddedServer) -> None:
    embedded.hold()
    assert EmbeddedServer(embedded.path).stop()
    assert not embedded.status().running
    embedded.release()


def test_what_was_stored_is_there_after_a_restart(embedded: EmbeddedServer) -> None:
    embedded.start()
    query(embedded, "create table kept as select 42 as n")
    embedded.stop()
    embedded.start()
    assert query(embedded, "select n from kept") == (42,)


def test_looking_starts_and_creates_nothing(home: Path) -> None:
    absent = EmbeddedServer(home / "nowhere")
    assert not absent.status().running
    assert not absent.path.exists()


def test_processes_that_start_at_once_share_one_server(python: Script, unmade: EmbeddedServer) -> None:
    crowd = [python(HOLD_UNTIL_TOLD) for _ in range(4)]
    pids = {told(process) for process in crowd}
    assert len(pids) == 1
    assert len(unmade.status().holders) == 4

    for process in crowd[1:]:
        end_cleanly(process)
    assert unmade.status().running
    end_cleanly(crowd[0])
    assert not unmade.status().running


def test_the_server_survives_a_kill_of_the_process_that_started_it(python: Script, embedded: EmbeddedServer) -> None:
    parent = python(HOLD_UNTIL_TOLD)
    pid = told(parent)
    parent.kill()
    parent.wait()

    assert embedded.status().running
    assert embedded.status().holders == ()

    heir = python(HOLD_UNTIL_TOLD)
    assert told(heir) == pid
    end_cleanly(heir)
    assert not embedded.status().running


def test_a_killed_server_starts_again_with_its_data(embedded: EmbeddedServer) -> None:
    embedded.start()
    query(embedded, "create table kept as select 42 as n")
    killed = postmaster_killed(embedded)
    assert not embedded.status().running

    embedded.start()
    assert embedded.status().pid != killed
    assert query(embedded, "select n from kept") == (42,)


def test_a_process_that_holds_the_server_starts_it_again_when_it_is_killed(
    python: Script, embedded: EmbeddedServer
) -> None:
    holder = python(HOLD_UNTIL_TOLD)
    told(holder)
    killed = postmaster_killed(embedded)
    deadline = time.monotonic() + 30
    while not embedded.status().running:
        assert time.monotonic() < deadline, "nobody started it again"
        time.sleep(0.05)
    assert embedded.status().pid != killed
    end_cleanly(holder)
    assert not embedded.status().running


def test_only_a_server_that_was_killed_is_revived(embedded: EmbeddedServer) -> None:
    embedded.hold()
    embedded.stop(force=True)
    embedded.revive()
    assert not embedded.status().running
    embedded.start()
    postmaster_killed(embedded)
    embedded.revive()
    assert embedded.status().running


def test_a_busy_backend_of_a_killed_server_does_not_block_the_next_one(embedded: EmbeddedServer) -> None:
    embedded.start()
    busy = psycopg.connect(embedded.url(), autocommit=True)
    backend = busy.info.backend_pid
    busy.pgconn.send_query(b"select count(*) from generate_series(1, 1e15::bigint)")
    postmaster_killed(embedded)
    assert backend in processes.inhabitants(embedded.home.data)

    embedded.start()
    assert backend not in processes.inhabitants(embedded.home.data)
    assert query(embedded, "select 1") == (1,)
    busy.close()


@pytest.mark.parametrize("content", [f"{os.getpid()}\n", "", "no number\n"], ids=["stranger", "empty", "garbage"])
def test_a_pid_file_that_names_no_server_does_not_keep_one_from_starting(
    embedded: EmbeddedServer, content: str
) -> None:
    embedded.start()
    embedded.stop()
    pid_file = embedded.home.data / "postmaster.pid"
    pid_file.write_text(content)
    os.chown(pid_file, *embedded.account.owner)

    embedded.start()
    assert query(embedded, "select 1") == (1,)


def test_a_cluster_abandoned_half_made_is_made_anew(unmade: EmbeddedServer) -> None:
    partial = unmade.path / "data.partial"
    partial.mkdir(parents=True)
    (partial / "PG_VERSION").write_text("18\n")

    unmade.start()
    assert query(unmade, "select 1") == (1,)
    assert not partial.exists()


def test_a_process_that_finds_the_server_half_way_up_waits_for_it(embedded: EmbeddedServer) -> None:
    """The starter may die between launching the server and seeing it ready."""
    embedded.start()
    pid_file = embedded.home.data / "postmaster.pid"
    whole = pid_file.read_text()
    lines = whole.splitlines()
    lines[processes.STATUS_LINE] = "starting"
    pid_file.write_text("\n".join(lines))
    assert not embedded.status().running
    assert embedded.status().pid is not None

    pid_file.write_text(whole)
    embedded.start()
    assert embedded.status().running


def test_data_of_another_major_version_is_refused_by_name(embedded: EmbeddedServer) -> None:
    embedded.start()
    embedded.stop()
    (embedded.home.data / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedServerError, match=r"written by PostgreSQL 14, the installed server is 18"):
        embedded.start()


def test_a_server_that_cannot_start_shows_the_end_of_its_log(embedded: EmbeddedServer) -> None:
    broken = EmbeddedServer(embedded.path, settings={"shared_buffers": "a lot"})
    with pytest.raises(EmbeddedServerError, match=r"did not start[^$]*shared_buffers"):
        broken.start()


def test_a_home_that_vanished_does_not_break_the_exit(embedded: EmbeddedServer) -> None:
    embedded.hold()
    embedded.stop()
    moved = embedded.path.rename(embedded.path.with_name(f"{embedded.path.name}-moved"))
    try:
        embedded.release()
    finally:
        moved.rename(embedded.path)
