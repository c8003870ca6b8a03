"""The first success: commands on an embedded server that nobody has prepared."""

import json
from pathlib import Path

from penstock.embedded import EmbeddedServer
from penstock.store import migrate, schema
from tests.support.processes import WorkerProcess, run_penstock


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


def test_a_worker_knows_the_newest_version_without_alembic() -> None:
    assert schema.head() == migrate.head()
