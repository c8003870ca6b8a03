"""The embedded server: start it, hold it, let it go.

Every function here blocks; async callers run it in a thread.
"""

import atexit
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.embedded import cluster, processes
from penstock.embedded.accounts import Account, account_for, account_to_start
from penstock.embedded.binaries import Binaries, packaged, tail
from penstock.embedded.errors import EmbeddedServerError
from penstock.embedded.home import Home, default_home
from penstock.embedded.keeper import Keeper

START_SECONDS = 60
STOP_SECONDS = 30


@dataclass(frozen=True)
class ServerStatus:
    """What is true of the server at this moment."""

    running: bool
    pinned: bool
    pid: int | None
    version: str
    home: Path
    socket: Path
    holders: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields in the types JSON knows."""
        return {
            "running": self.running,
            "pinned": self.pinned,
            "pid": self.pid,
            "version": self.version,
            "home": str(self.home),
            "socket": str(self.socket),
            "holders": list(self.holders),
        }


@dataclass
class EmbeddedServer:
    """One PostgreSQL server in one home directory, shared by all processes of its owner.

    *binaries* default to the packaged PostgreSQL 18; *settings* are added to
    postgresql.conf when this object starts the server, and change nothing
    when the server already runs.
    """

    path: Path = field(default_factory=default_home)
    binaries: Binaries = field(default_factory=packaged)
    settings: Mapping[str, str] = field(default_factory=dict)
    _holding: int | None = field(default=None, init=False, repr=False)

    @cached_property
    def home(self) -> Home:
        """The names below the home directory."""
        return Home(self.path)

    @property
    def account(self) -> Account:
        """The operating system account that runs the server."""
        return account_for(self.path)

    def start(self, *, pin: bool = False) -> None:
        """Start the server unless it runs; with *pin* it stays until `stop`."""
        with self.home.locked():
            self._ensure_running()
            if pin:
                self.home.set_pin()

    def stop(self, *, force: bool = True) -> bool:
        """Unpin and stop the server; return whether it is down now.

        Without *force* a server that other processes hold stays up, and the
        last of them stops it.
        """
        with self.home.locked():
            self.unpin()
            if not force and self.home.living_holders():
                return False
            self._ensure_stopped()
            return True

    def unpin(self) -> None:
        """Forget an earlier `start(pin=True)`, also of a server that died since."""
        self.home.remove_pin()

    def hold(self) -> None:
        """Start the server if need be and keep it up until `release`, or until this process ends."""
        with self.home.locked():
            self._ensure_running()
            if self._holding is None:
                self._holding = self.home.add_holder()

    def revive(self) -> None:
        """Start the server if it was killed; one that was stopped stays down."""
        if processes.was_killed(self.home.data):
            with self.home.locked():
                if processes.was_killed(self.home.data):  # another holder may have been quicker
                    self._ensure_running()

    def release(self) -> None:
        """Let go of the server; the last holder to do so stops it unless it is pinned."""
        if self._holding is None:
            return
        os.close(self._holding)
        self._holding = None
        if not self.path.exists():
            return
        with self.home.locked():
            if not self.home.pin.exists() and not self.home.living_holders():
                self._ensure_stopped()

    def status(self) -> ServerStatus:
        """Look, without starting anything or creating the home."""
        pid = processes.postmaster(self.home.data)
        return ServerStatus(
            running=pid is not None and processes.is_ready(self.home.data),
            pinned=self.home.pin.exists(),
            pid=pid,
            version=self.binaries.version,
            home=self.path,
            socket=self.home.socket,
            holders=tuple(self._look_for_holders()),
        )

    def url(self, user: str = cluster.ROLE, database: str = cluster.DATABASE) -> str:
        """Return a DSN that asyncpg, psycopg and SQLAlchemy understand.

        The port is spelt out so that a PGPORT in the environment changes nothing.
        """
        socket = quote(str(self.home.socket), safe="/")
        return f"postgresql://{quote(user)}@/{quote(database)}?host={socket}&port=5432"

    def superuser_url(self, database: str = cluster.DATABASE) -> str:
        """Return the DSN for commands that make roles; applications never use it."""
        return self.url(user=cluster.SUPERUSER, database=database)

    def _look_for_holders(self) -> list[int]:
        if not self.home.holders.exists():
            return []
        with self.home.locked():
            return self.home.living_holders()

    def _ensure_running(self) -> None:
        if processes.postmaster(self.home.data) is None:
            self._prepare()
            self._launch()
            cluster.revoke_temporary(self.home.socket, self._programs, self.account)
        else:
            self._await_ready()

    def _prepare(self) -> None:
        account = account_to_start(self.path)
        self.home.create(account)
        if not self.home.data.exists():
            durable = self.settings.get("fsync") != "off"
            cluster.create(self.home.data, self._programs, account, durable=durable)
        cluster.check_version(self.home.data, self._programs)
        processes.evict_orphans(self.home.data)
        processes.clear_traces(self.home.data, self.home.socket)
        cluster.configure(self.home.data, self.home.socket, self._programs, account, self.settings)

    def _launch(self) -> None:
        try:
            self._pg_ctl("start", "-l", str(self.home.log), "-t", str(START_SECONDS))
        except (EmbeddedServerError, subprocess.TimeoutExpired) as error:
            raise self._did_not_start() from error

    def _await_ready(self) -> None:
        """Wait for a server whose starter died before it was up."""
        deadline = time.monotonic() + START_SECONDS
        while not processes.is_ready(self.home.data):
            if time.monotonic() > deadline:
                raise self._did_not_start()
            time.sleep(0.05)

    def _did_not_start(self) -> EmbeddedServerError:
        last = tail(self.home.log_text())
        return EmbeddedServerError(f"the embedded server did not start. The end of {self.home.log}:\n{last}")

    def _ensure_stopped(self) -> None:
        if processes.postmaster(self.home.data) is None:
            return
        try:
            self._pg_ctl("stop", "-m", "fast", "-t", str(STOP_SECONDS))
        except EmbeddedServerError:
            self._pg_ctl("stop", "-m", "immediate", "-t", str(STOP_SECONDS))

    def _pg_ctl(self, verb: str, *options: str) -> None:
        self._programs.run(self.account, "pg_ctl", verb, "-w", "-s", "-D", str(self.home.data), *options)

    @cached_property
    def _programs(self) -> Binaries:
        return self.binaries.within_reach(self.account, self.home.staging)


def ensure_started(home: Path | None = None) -> EmbeddedServer:
    """Return the running server of *home*, held and kept running until this process ends cleanly."""
    server = EmbeddedServer(home or default_home())
    server.hold()
    keeper = Keeper(server)
    keeper.start()
    atexit.register(keeper.release)
    return server
