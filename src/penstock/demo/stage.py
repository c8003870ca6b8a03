"""The stage: a server in a directory that is thrown away, the worker processes, and a look at the database."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import PenstockError
from penstock.demo.work import FOLDER
from penstock.embedded import EmbeddedServer
from penstock.store import connect, roles
from penstock.store import migrate as migrations
from penstock.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from penstock.demo.view import View
    from penstock.engine.app import Penstock
    from penstock.store.connect import Connection

PROCESSES: Final = 3
PATIENCE: Final = 120.0  # seconds after which a play that does not go on is broken off
TICK: Final = 0.1
APPLICATION: Final = "penstock.demo.work:app"


@dataclass(frozen=True)
class Check:
    """A promise, what was found, and whether it was kept."""

    promise: str
    found: str
    kept: bool


class Stage:
    """All that an act may use."""

    def __init__(self, folder: Path, server: EmbeddedServer, view: View, app: Penstock, owner: Connection) -> None:
        self.folder = folder
        self.server = server
        self.view = view
        self.app = app  # logged in as penstock_orchestrator
        self.owner = owner  # a connection of the schema's owner, for looking and for tables
        self.notes: dict[str, Any] = {}  # what one act leaves for another, or for its checks
        self._workers: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What the workers logged."""
        return self.folder / "workers.log"

    @contextmanager
    def logging(self) -> Iterator[None]:
        """What goes wrong on purpose is told by the play; the log is for those who keep it."""
        with self.log.open("a") as lines:
            logs.configure("warning", "json", stream=lines)
            try:
                yield
            finally:
                logs.reset()

    def start_workers(self, *options: str) -> None:
        """Start a supervisor with its processes, logged in as penstock_worker."""
        command = [sys.executable, "-m", "penstock", "worker", APPLICATION, "--processes", str(PROCESSES)]
        given = {"PENSTOCK_DSN": self.server.url(user=roles.WORKER), FOLDER: str(self.folder)}
        with self.log.open("ab") as log:
            self._workers = subprocess.Popen(
                [*command, "--name", "press", "--log-format", "json", "--log-level", "warning", *options],
                env={**clean_environment(), **given},
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def call(self, application: str, function: str, **given: str) -> int:
        """Run a function once in a process of its own, as penstock_worker; blocks, and returns its exit code."""
        command = [sys.executable, "-m", "penstock", "run", function, "--app", application]
        environment = {**clean_environment(), "PENSTOCK_DSN": self.server.url(user=roles.WORKER), **given}
        with self.log.open("ab") as log:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=PATIENCE,
                check=False,
            )
        return done.returncode

    async def stop_workers(self) -> int:
        """Tell them to finish; the exit code of the supervisor."""
        if self._workers is None:
            return 0
        self._workers.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(self._workers.wait, PATIENCE)
        self._workers = None
        return code

    def abandon_workers(self) -> None:
        """After a broken play: end them however they are."""
        if self._workers is not None and self._workers.poll() is None:
            self._workers.send_signal(signal.SIGTERM)
            self._workers.send_signal(signal.SIGTERM)  # the second one does not wait
            self._workers.wait(PATIENCE)

    @asynccontextmanager
    async def logged_in(self, role: str) -> AsyncIterator[Connection]:
        """A connection as one of the five roles."""
        connection = await connect.connect(self.server.url(user=role))
        try:
            yield connection
        finally:
            await connection.close()

    async def workers(self) -> list[dict[str, Any]]:
        """The processes that are alive, with how many jobs each holds."""
        rows = await self.owner.fetch(
            "select w.worker_id, w.pid, count(j.job_id) as busy from penstock.workers w "
            "left join penstock.jobs j on j.claimed_by = w.worker_id and j.status = 'processing' "
            "where w.stopped_at is null group by w.worker_id, w.pid order by w.worker_id"
        )
        return [dict(row) for row in rows]

    async def counts(self) -> dict[str, dict[str, int]]:
        """Jobs by type and status."""
        counts: dict[str, dict[str, int]] = defaultdict(dict)
        for row in await self.owner.fetch("select job_type, status, count(*) from penstock.jobs group by 1, 2"):
            counts[row["job_type"]][row["status"]] = row["count"]
        return counts

    async def watch(self) -> AsyncIterator[dict[str, int]]:
        """Show how the work goes, and yield the totals by status, until the audience has seen enough."""
        deadline = time.monotonic() + PATIENCE
        while True:
            counts = await self.counts()
            self.view.progress(counts, await self.workers())
            totals: dict[str, int] = defaultdict(int)
            for found in counts.values():
                for status, count in found.items():
                    totals[status] += count
            yield totals
            if self._workers is not None and self._workers.poll() is not None:
                raise PenstockError(f"the workers ended by themselves; play with --keep and look at {self.log.name}")
            if time.monotonic() > deadline:
                raise PenstockError(
                    f"the work did not end in {PATIENCE:.0f} s; play with --keep and look at {self.log.name}"
                )
            await asyncio.sleep(TICK)


@asynccontextmanager
async def set_up(view: View, keep: Path | None = None) -> AsyncIterator[Stage]:
    """Build the stage in an empty directory, and take it down whatever happens; *keep* is left for looking."""
    folder = keep or Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)  # the server's account has to get through, when root runs the demo
    server = EmbeddedServer(folder / "server")
    stage: Stage | None = None
    try:
        await asyncio.to_thread(server.start)
        await _prepare(server)
        owner = await connect.connect(server.url())
        from penstock.demo.work import app

        app.use_dsn(server.url(user=roles.ORCHESTRATOR))
        stage = Stage(folder, server, view, app, owner)
        yield stage
        await app.close()
        await owner.close()
    finally:
        if stage is not None:
            stage.abandon_workers()
        await asyncio.to_thread(server.stop)
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


async def _prepare(server: EmbeddedServer) -> None:
    await roles.create_roles(server.superuser_url())
    await asyncio.to_thread(migrations.upgrade, server.url(), to=migrations.lines())
    await roles.apply_grants(server.url())


def clean_environment() -> dict[str, str]:
    """Nothing of the user's settings may change the play."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
