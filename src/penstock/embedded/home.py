"""The home directory of an embedded server: its layout, its lock, its holders.

Holders are counted by the kernel. Each process that uses the server keeps a
lock on a file of its own; the lock goes away with the process, however it
ends, so no dead holder keeps the server up and no reused pid is mistaken for
a living one. The file's name carries the pid only for people to read.
"""

import fcntl
import itertools
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded.accounts import Account
from penstock.embedded.errors import EmbeddedServerError

SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_BYTES = 107  # what the kernel accepts, without the closing NUL
PLAIN_PATH = re.compile(r"[\w/.+-]+", re.ASCII)  # needs no quoting in a DSN or in postgresql.conf
AWKWARD = re.compile(r"[\"'$`\\\n]")  # pg_ctl passes its paths through a shell
LOCK_PATIENCE = 180.0

_sequence = itertools.count(1)


@dataclass(frozen=True)
class Home:
    """Names of everything below one PENSTOCK_HOME."""

    path: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.path / "data"

    @property
    def log(self) -> Path:
        """The server log: starts, stops and fatal errors, never a statement."""
        return self.path / "server.log"

    @property
    def staging(self) -> Path:
        """Copies of binaries that the server's account cannot reach elsewhere."""
        return self.path / "binaries"

    @property
    def pin(self) -> Path:
        """Exists while the server is to stay up without holders."""
        return self.path / "pinned"

    @property
    def socket(self) -> Path:
        """The socket directory; where the path is too long, `run` links to a short one."""
        run = self.path / "run"
        return run.readlink() if run.is_symlink() else run

    @property
    def holders(self) -> Path:
        """One locked file per process that uses the server."""
        return self.path / "holders"

    def create(self, account: Account) -> None:
        """Make the home, closed to everyone but its owner and the server's account."""
        self._make(self.path)
        if AWKWARD.search(str(self.path)):
            raise EmbeddedServerError(
                f"PostgreSQL's tools cannot handle the quotes or dollar signs in {self.path}. "
                "Set PENSTOCK_HOME to a plainer path."
            )
        if account.switch and self.path.stat().st_uid == 0:
            self.path.chmod(0o711)
        if not account.reaches(self.path):
            raise EmbeddedServerError(
                f"the server runs as {account.name!r} when you are root, and that account "
                f"cannot enter {self.path}. Set PENSTOCK_HOME to a directory it can reach, "
                "such as /var/lib/penstock."
            )
        self.holders.mkdir(mode=0o700, exist_ok=True)
        self.staging.mkdir(mode=0o755, exist_ok=True)
        self.log.touch(mode=0o600)
        for path in (self.holders, self.staging, self.log):
            account.give(path)
        self._open_socket_directory(account)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only process that starts, stops or counts; wait for the others."""
        self._make(self.path)
        descriptor = self._open(self.path / "lock")
        try:
            _lock_patiently(descriptor, self.path)
            yield
        finally:
            os.close(descriptor)

    def add_holder(self) -> int:
        """Count this process as a user of the server; closing the descriptor ends it."""
        path = self.holders / f"{os.getpid()}.{next(_sequence)}"
        descriptor = self._open(path)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor

    def living_holders(self) -> list[int]:
        """Return the pids that hold the server, and sweep away those that ended."""
        if not self.holders.exists():
            return []
        alive = [path for path in sorted(self.holders.iterdir()) if not _sweep(path)]
        return sorted({int(path.name.split(".")[0]) for path in alive})

    def _make(self, path: Path) -> None:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot create {path} for the embedded server ({error.strerror}). "
                "Set PENSTOCK_HOME to a directory you can write, or PENSTOCK_DSN to use "
                "another server."
            ) from error

    def _open(self, path: Path) -> int:
        """Open or create a lock file that belongs to the owner of the home, also when root made it."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.fchown(descriptor, self.path.stat().st_uid, -1)
        except PermissionError:
            raise EmbeddedServerError(
                f"the embedded server in {self.path} belongs to somebody else. "
                "Set PENSTOCK_HOME to a directory of your own, or PENSTOCK_DSN to use another server."
            ) from None
        return descriptor

    def _open_socket_directory(self, account: Account) -> None:
        run = self.path / "run"
        if not _fits_a_socket(run):
            if self.socket.is_dir() and self.socket.stat().st_uid == account.uid:
                return
            run.unlink(missing_ok=True)
            run.symlink_to(_short_directory())
        self.socket.mkdir(mode=0o700, exist_ok=True)
        self.socket.chmod(0o700)
        account.give(self.socket)


def default_home() -> Path:
    """Return PENSTOCK_HOME, or the place where this user's programs keep their data.

    Root's own directories are closed to the account that runs the server, so
    root's default is the system's place for such things.
    """
    if named := os.environ.get("PENSTOCK_HOME"):
        try:
            os.fsencode(named).decode()
            return Path(named).expanduser().absolute()
        except (UnicodeDecodeError, RuntimeError):
            raise EmbeddedServerError(
                "PENSTOCK_HOME must be the path of a directory, in UTF-8, and ~ that of a user who exists."
            ) from None
    if os.geteuid() == 0:
        return Path("/var/lib/penstock")
    if base := os.environ.get("XDG_DATA_HOME"):
        return Path(base).absolute() / "penstock"
    return Path.home() / ".local" / "share" / "penstock"


def _fits_a_socket(directory: Path) -> bool:
    """Tell whether a socket below *directory* has a path that every client accepts."""
    name = directory / SOCKET_NAME
    return len(os.fsencode(name)) <= SOCKET_PATH_BYTES and bool(PLAIN_PATH.fullmatch(str(name)))


def _short_directory() -> Path:
    """Make a private directory with a short path and a name nobody can guess or take."""
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes a private one below
        if base and os.geteuid() == 0 and base == os.environ.get("XDG_RUNTIME_DIR"):
            continue  # closed to the account that runs root's server
        if base and os.access(base, os.W_OK) and _fits_a_socket(Path(base, "penstock-12345678")):
            return Path(tempfile.mkdtemp(prefix="penstock-", dir=base))
    raise EmbeddedServerError(
        "no directory with a path short enough for a socket; set PENSTOCK_HOME to a shorter path."
    )


def _lock_patiently(descriptor: int, home: Path) -> None:
    deadline = time.monotonic() + LOCK_PATIENCE
    while not _try_lock(descriptor):
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"another process has been starting or stopping the server in {home} for "
                f"{LOCK_PATIENCE:.0f} s. End it, then try again."
            )
        time.sleep(0.02)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sweep(path: Path) -> bool:
    """Remove the file of a holder that ended; a living holder's file stays."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if not _try_lock(descriptor):
            return False
        path.unlink()
        return True
    finally:
        os.close(descriptor)
