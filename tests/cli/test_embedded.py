"""The first success: commands on an embedded server that nobody has prepared."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store import lines, migrate, schema
from tests.migrations.ledger import LEDGER
from tests.support import clusters, seeds, servers
from tests.support.processes import ROOT, SAMPLE, WorkerProcess, run_penstock


@pytest.mark.long
def test_the_first_worker_prepares_the_embedded_server_and_runs_as_the_role_for_it(home: Path) -> None:
    env = {"PENSTOCK_HOME": str(home)}
    worker = WorkerProcess(None, "--types", "noop", env=env)
    try:
        worker.ready()
        put = run_penstock(["jobs", "enqueue", "noop", '{"n": 1}'], None, env=env)
        assert put.returncode == 0, put.stderr
        job_id = put.stdout.strip()
        worker.wait_for("job_completed", job_id=job_id)
        listed = run_penstock(["jobs", "list", "--json"], None, env=env)
        assert [row["job_id"] for row in json.loads(listed.stdout)] == [job_id]
        assert json.loads(listed.stdout)[0]["claimed_by"] is not None
        assert worker.stop() == 0
    finally:
        worker.clear_away()
    assert not EmbeddedServer(home).status().running, "the last one to leave stops the server"


@pytest.mark.contract("C-71")
def test_on_the_embedded_server_types_are_synced_by_an_operators_login(made_home: Path) -> None:
    env = {"PENSTOCK_HOME": str(made_home)}
    server = EmbeddedServer(made_home)
    server.start(pin=True)
    assert run_penstock(["types", "sync", SAMPLE], None, env=env).returncode == 0
    with psycopg.connect(server.url(), autocommit=True) as owner:
        stored = "select audited, policy -> 'audit' from penstock.types where job_type = 'flaky'"
        owner.execute('update penstock.types set audited = true, policy = policy || \'{"audit": "full"}\'')
        assert owner.execute(stored).fetchone() == (True, "full")
        done = run_penstock(["types", "sync", SAMPLE], None, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        assert owner.execute(stored).fetchone() == (False, "summary")


@pytest.mark.long
def test_the_lines_of_installed_applications_are_brought_up_too(home: Path, tmp_path: Path) -> None:
    server = EmbeddedServer(home, settings=clusters.SURVIVES_A_KILL)
    seeds.sow(server, "private", servers._furnish)
    server.start(pin=True)
    env = {"PENSTOCK_HOME": str(home)}
    assert run_penstock(["jobs", "list"], None, env=env).returncode == 0
    info = tmp_path / "ledger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock.migrations]\nledger = tests.migrations.ledger:LEDGER\n")
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(ROOT)])

    assert run_penstock(["jobs", "list"], None, env=env).returncode == 0

    shown = run_penstock(["migrate", "status", "--json"], None, env=env)
    found = {row["line"]: row["current"] == row["head"] for row in json.loads(shown.stdout)}
    assert found == dict.fromkeys(("engine", "ledger", "review", "rewrite", "vault"), True)


def test_a_worker_knows_the_newest_version_without_alembic() -> None:
    assert schema.head() == migrate.head()
    assert lines.newest(LEDGER) == migrate.versions(LEDGER)[-1]
    heavy = "import sys, penstock.store.schema; sys.exit('alembic' in sys.modules or 'sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", heavy], check=False).returncode == 0
