"""The PostgreSQL server of a test run, and the databases cloned from its template.

All processes of a run share one server. The first names its directory and
stops it at the end; whoever needs it first starts it and prepares the template.
Servers of single tests live in the same directory. A run that was killed
leaves them all behind; the next run finds the directory unlocked and clears
it away.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg

from penstock.embedded import Binaries, EmbeddedServer, EmbeddedServerError, installed, packaged
from penstock.store import migrate, roles

DIRECTORY_VARIABLE = "PENSTOCK_TEST_DIRECTORY"
PREFIX = "penstock-test-"
TEMPLATE = "penstock_template"
BARE_TEMPLATE = "penstock_template_bare"  # the engine without any application
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - every directory below it is made by mkdtemp
ENOUGH = 4 * 1024**3
# Safe against kill -9 of the server, which loses no page the kernel has; unsafe against a power cut.
# Shared memory is kept in the data directory: a killed server leaves nothing anywhere else.
SURVIVES_A_KILL: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "4GB",
    "dynamic_shared_memory_type": "mmap",
}
UNSAFE_BUT_FAST: Final = {
    **SURVIVES_A_KILL,
    "synchronous_commit": "off",
    "autovacuum_naptime": "1d",  # a database is dropped long before
}
COPIES_IN_THE_KERNEL: Final = 18  # the first version that can
IN_THE_KERNEL: Final = {"file_copy_method": "clone"}


@dataclass(frozen=True)
class Database:
    """One database of the test server; nobody else uses it."""

    name: str
    server: EmbeddedServer

    @property
    def dsn(self) -> str:
        """The DSN of the role that owns the database, which is no superuser."""
        return self.server.url(database=self.name)

    @property
    def superuser_dsn(self) -> str:
        """The DSN for what only a superuser may do."""
        return self.server.superuser_url(self.name)

    def role_dsn(self, role: str) -> str:
        """The DSN of one of the five roles."""
        return self.server.url(user=role, database=self.name)


def binaries_under_test() -> Binaries:
    """Return the packaged server, or the installed one that PG names."""
    major = os.environ.get("PG")
    if not major:
        return packaged()
    if not major.isdecimal():
        raise EmbeddedServerError(f"PG={major} is no major version of PostgreSQL; write it as PG=15")
    return installed(int(major))


def new_home(kind: str) -> Path:
    """Make a short directory of this run that the server's account can reach, also for root."""
    return _reachable(f"{kind}-", Path(os.environ[DIRECTORY_VARIABLE]))


def remove_server(server: EmbeddedServer) -> None:
    """Stop *server* and remove all it had."""
    if server.path.exists():
        server.stop()
        shutil.rmtree(server.path, ignore_errors=True)


def migrate_template(dsn: str, lines: Sequence[migrate.Line] | None = None) -> None:
    """Bring the database at *dsn* to the newest schema, of all lines unless *lines* are named."""
    outside_any_loop(lambda: migrate.upgrade(dsn, to=migrate.lines() if lines is None else lines))


def create_roles(superuser_dsn: str) -> None:
    """Make the five roles, once per server."""
    outside_any_loop(lambda: asyncio.run(roles.create_roles(superuser_dsn)))


def prepare(server: EmbeddedServer) -> None:
    """Start the shared server and build its template, unless another process did."""
    server.start()
    with exclusive(server.path / "template.lock"):
        done = server.path / "template.done"
        if done.exists():
            return
        create_roles(server.superuser_url())
        _make_template(server)
        done.touch()


def template_from(
    base: str, name: str, furnish: Callable[[str], object], server: EmbeddedServer, admin: psycopg.Connection[Any]
) -> str:
    """Make another template from *base*, once for all processes of a run; *furnish* gets its owner's DSN."""
    with exclusive(server.path / f"{name}.lock"):
        if not admin.execute("select from pg_database where datname = %s", [name]).fetchall():
            create(admin, name, f"template {base}")
            furnish(server.url(database=name))
            admin.execute(f"alter database {name} allow_connections false")
    return name


def clone(server: EmbeddedServer, admin: psycopg.Connection[Any], template: str = TEMPLATE) -> Database:
    """Make a fresh database from the template."""
    name = f"test_{uuid4().hex}"
    create(admin, name, f"template {template} strategy file_copy")
    return Database(name, server)


def create(admin: psycopg.Connection[Any], name: str, options: str = "") -> None:
    """Make a database as the embedded server would have it: its owner's, closed to temporary objects of others."""
    admin.execute(f"create database {name} owner penstock {options}")
    admin.execute(f"revoke temporary on database {name} from public")


def drop(database: Database, admin: psycopg.Connection[Any]) -> None:
    """Drop *database*, also while something is still connected to it."""
    admin.execute(f"drop database if exists {database.name} with (force)")


def open_session_directory() -> tuple[Path, int]:
    """Make the directory of this run and lock it; the lock tells others that it is in use."""
    sweep_abandoned()
    path = new_run()
    unlocked = path / "run.lock.new"  # never visible to a sweeper before it is locked
    descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unlocked.rename(path / "run.lock")
    os.environ[DIRECTORY_VARIABLE] = str(path)
    return path, descriptor


def new_run() -> Path:
    """Make the directory of a run, which nobody has locked yet."""
    return _reachable(PREFIX, _temporary())


def close_session_directory(path: Path, lock: int) -> None:
    """Remove the directory of this run with all its servers, then the lock: nobody sweeps what is being removed."""
    remove_run(path)
    os.close(lock)


@contextmanager
def session_directory() -> Iterator[None]:
    """The directory of a run that pytest does not conduct: of a campaign from the command line."""
    opened = open_session_directory()
    try:
        yield
    finally:
        del os.environ[DIRECTORY_VARIABLE]
        close_session_directory(*opened)


def remove_run(path: Path) -> None:
    """Stop the servers of a run, of its single tests too, and remove all they had."""
    for data in sorted(path.glob("*/data")):
        remove_server(EmbeddedServer(data.parent, binaries_under_test()))
    remove_server(EmbeddedServer(path, binaries_under_test()))


def session_server() -> EmbeddedServer:
    """Return the server of this run, as the controller named it."""
    path = Path(os.environ[DIRECTORY_VARIABLE])
    binaries = binaries_under_test()
    quick = UNSAFE_BUT_FAST if binaries.major < COPIES_IN_THE_KERNEL else {**UNSAFE_BUT_FAST, **IN_THE_KERNEL}
    return EmbeddedServer(path, binaries, quick)


def sweep_abandoned() -> None:
    """Remove the servers of test runs that were killed."""
    for lock in _temporary().glob(f"{PREFIX}*/run.lock"):
        with suppress(FileNotFoundError):  # another run sweeps at the same time
            if lock.stat().st_uid == os.geteuid() and _is_free(lock):
                remove_run(lock.parent)


def _reachable(prefix: str, folder: Path) -> Path:
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
    path.chmod(0o711)
    return path


def _temporary() -> Path:
    """Return a place for data directories: in memory where there is room, else on disk.

    A clone takes 14 ms in memory and up to 300 ms on a slow disk. pytest's own
    directory is closed to the account that runs root's server.
    """
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        found = os.statvfs(MEMORY)
        if found.f_bavail * found.f_frsize > ENOUGH and not found.f_flag & os.ST_NOEXEC:
            return MEMORY
    return Path(tempfile.gettempdir())


def _make_template(server: EmbeddedServer) -> None:
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as admin:
        create(admin, BARE_TEMPLATE)
        migrate_template(server.url(database=BARE_TEMPLATE), [migrate.ENGINE])
        admin.execute(f"alter database {BARE_TEMPLATE} allow_connections false")
        create(admin, TEMPLATE, f"template {BARE_TEMPLATE}")
        migrate_template(server.url(database=TEMPLATE))
        admin.execute(f"alter database {TEMPLATE} allow_connections false")


def outside_any_loop(call: Callable[[], object]) -> None:
    """Run *call* in a thread of its own: it starts an event loop, and the test may have one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(call).result()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Let one process of a run at a time go on; *path* is the lock."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_free(lock: Path) -> bool:
    with lock.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
