"""A real PgBouncer in transaction mode, in front of the server of the tests.

It runs as an account without rights, on a free port, in a directory of its
own, and is ended by its own process id.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from penstock.embedded.accounts import account_for
from penstock.store.roles import ROLES
from tests.support import clusters

PATIENCE = 10.0
TRIES = 5  # another process may take a port that was free a moment ago
MISSING = (
    "pgbouncer is missing, so nothing of ours was tried behind it. `make test` installs it for root on Debian; "
    "elsewhere install the package `pgbouncer`, so that the program is in the PATH or in /usr/sbin."
)
INI = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 300
logfile = {log}
"""


@dataclass(frozen=True)
class PgBouncer:
    """One that runs; *size* sessions of the server for each login, however many clients there are."""

    port: int
    size: int
    process: subprocess.Popen[bytes]

    def dsn(self, direct: str) -> str:
        """The way through it to the database of *direct*, with the same login."""
        parts = urlsplit(direct)
        return f"postgresql://{parts.username}@127.0.0.1:{self.port}{parts.path}?sslmode=disable"


def program() -> str:
    """Where it is; a machine without it fails the test by name, and skips nothing."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.fail(MISSING, pytrace=False)
    return found


def version() -> tuple[int, ...]:
    """Its version, such as (1, 18, 0)."""
    said = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.split()[1].split("."))


@contextmanager
def pgbouncer(dsn: str, *, size: int = 4) -> Iterator[PgBouncer]:
    """PgBouncer in front of the server of *dsn*, with its defaults wherever nothing else is said here."""
    binary, home = program(), clusters.new_home("pooler")
    started: PgBouncer | None = None
    try:
        for _ in range(TRIES):
            started = _start(binary, home, dsn, size)
            if started is not None:
                break
        assert started is not None, (home / "log").read_text()
        yield started
    finally:
        if started is not None:
            started.process.terminate()
            started.process.wait(PATIENCE)
        shutil.rmtree(home, ignore_errors=True)


def _start(binary: str, home: Path, dsn: str, size: int) -> PgBouncer | None:
    """Start it on some port; None when it has ended before it listened."""
    account, listen = account_for(home), _free_port()
    place = parse_qs(urlsplit(dsn).query)
    log, users, ini = home / "log", home / "users", home / "pgbouncer.ini"
    users.write_text("".join(f'"{name}" ""\n' for name in (*ROLES, "penstock")))
    ini.write_text(
        INI.format(host=place["host"][0], port=place["port"][0], listen=listen, users=users, size=size, log=log)
    )
    log.touch()
    for path in (home, log, users, ini):
        os.chown(path, *account.owner)
    process = subprocess.Popen(
        [binary, "--quiet", str(ini)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, **account.subprocess_options,
    )  # fmt: skip
    made = PgBouncer(listen, size, process)
    return made if _answers(made, dsn) else None


def _answers(made: PgBouncer, dsn: str) -> bool:
    """Wait until a statement gets through it."""
    deadline = time.monotonic() + PATIENCE
    while made.process.poll() is None:
        try:
            psycopg.connect(made.dsn(dsn), connect_timeout=2).close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, "PgBouncer does not answer"
            time.sleep(0.02)
        else:
            return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
