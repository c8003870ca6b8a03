"""The ground every other test stands on."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store.roles import ROLES
from tests.support import clusters, seeds
from tests.support.servers import PrivateServer, wait_for_death

ROOT = Path(__file__).parents[2]

SAMPLE = """
import pytest

@pytest.mark.contract("Q-62", "C-31")
@pytest.mark.contract("Q-62")
def test_proves(): ...

@pytest.mark.contract("Q-63")
def test_breaks(): assert False

@pytest.mark.contract("Q-64")
def test_skips(): pytest.skip("not here")

@pytest.fixture
def leaky():
    yield
    raise RuntimeError

@pytest.mark.contract("Q-65")
def test_breaks_afterwards(leaky): ...

def test_proves_nothing_of_the_contract(): ...
"""


async def fetch(dsn: str, statement: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def run_sample(directory: Path, source: str, *options: str) -> "subprocess.CompletedProcess[str]":
    (directory / "test_sample.py").write_text(source)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = contract(*clauses): proven\n")
    plugins = (
        "-p",
        "tests.support.parallel",
        "-p",
        "tests.support.contract_report",
    )  # all others would cost seconds to load
    command = [sys.executable, "-m", "pytest", *plugins, str(directory), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


async def test_each_test_has_a_migrated_database_of_its_own(dsn: str) -> None:
    assert await fetch(dsn, "select to_regclass('penstock.jobs')::text") == "penstock.jobs"
    assert await fetch(dsn, "select to_regclass('public.mine')") is None
    await fetch(dsn, "create schema mine")


async def test_the_owner_is_no_superuser(dsn: str, superuser_dsn: str) -> None:
    rights = "select rolsuper or rolbypassrls from pg_roles where rolname = current_user"
    assert await fetch(dsn, rights) is False
    assert await fetch(superuser_dsn, rights) is True


@pytest.mark.parametrize("role", ROLES)
async def test_each_of_the_four_roles_logs_in_to_the_same_database(
    role: str, role_dsn: Callable[[str], str], database: clusters.Database
) -> None:
    assert await fetch(role_dsn(role), "select current_user") == role
    assert await fetch(role_dsn(role), "select current_database()") == database.name


async def test_a_private_server_can_be_killed_and_comes_back_with_its_data(server: PrivateServer) -> None:
    await fetch(server.dsn, "create schema kept")
    server.kill()
    with pytest.raises((OSError, asyncpg.PostgresError)):
        await fetch(server.dsn, "select 1")

    server.start()
    assert await fetch(server.dsn, "select to_regnamespace('kept')::text") == "kept"


def test_a_test_run_that_was_killed_is_cleared_away_by_the_next() -> None:
    run = clusters.new_run()
    homes = [run, run / "private-1"]  # the shared server, and one that a test had for itself
    left = [EmbeddedServer(home, clusters.binaries_under_test(), clusters.SURVIVES_A_KILL) for home in homes]
    for server in left:
        server.path.mkdir(mode=0o711, exist_ok=True)
        seeds.sow(server, "empty", lambda _: None)
        server.start()
    pids = [server.status().pid or 0 for server in left]
    with (run / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        clusters.sweep_abandoned()
        assert all(server.status().running for server in left)

    clusters.sweep_abandoned()
    assert not run.exists()
    for pid in pids:
        wait_for_death(pid)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_report_names_the_worst_outcome_and_the_clauses_of_every_test(tmp_path: Path, processes: str) -> None:
    report = tmp_path / "build" / "report.json"
    run_sample(tmp_path, SAMPLE, "--contract-report", str(report), "--in-parallel", processes)
    found = {name.rpartition("::")[2]: entry for name, entry in json.loads(report.read_text()).items()}
    assert found == {
        "test_proves": {"outcome": "passed", "clauses": ["Q-62", "C-31"]},
        "test_breaks": {"outcome": "failed", "clauses": ["Q-63"]},
        "test_skips": {"outcome": "skipped", "clauses": ["Q-64"]},
        "test_breaks_afterwards": {"outcome": "failed", "clauses": ["Q-65"]},
        "test_proves_nothing_of_the_contract": {"outcome": "passed", "clauses": []},
    }


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [('"Q62"', "'Q62' is no clause"), ('"Q-01", "Q-02", "Q-03", "Q-04", "Q-05", "Q-06"', "names 6 clauses")],
)
def test_a_mark_that_is_no_clause_or_claims_too_much_stops_the_run(tmp_path: Path, mark: str, complaint: str) -> None:
    source = f"import pytest\n\n@pytest.mark.contract({mark})\ndef test_it(): ...\n"
    assert complaint in run_sample(tmp_path, source).stderr
