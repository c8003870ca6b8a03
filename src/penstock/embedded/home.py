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
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded import folders
from penstock.embedded.accounts import Account
from penstock.embedded.errors import EmbeddedServerError
from penstock.embedded.folders import Folder

HOLDERS = "holders"
LOG = "server.log"
PIN = "pinned"
RUN = "run"
STAGING = "binaries"
LOG_BYTES = 1_000_000
HOLDER = re.compile(r"\d+\.\d+")
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
        return self.path / LOG

    @property
    def staging(self) -> Path:
        """Copies of binaries that the server's account cannot reach elsewhere."""
        return self.path / STAGING

    @property
    def pin(self) -> Path:
        """Exists while the server is to stay up without holders."""
        return self.path / PIN

    @property
    def socket(self) -> Path:
        """The socket directory; where the path is too long, `run` links to a short one."""
        run = self.path / RUN
        return run.readlink() if run.is_symlink() else run

    @property
    def holders(self) -> Path:
        """One locked file per process that uses the server."""
        return self.path / HOLDERS

    def create(self, account: Account) -> None:
        """Make the home, closed to everyone but its owner and the server's account."""
        self._make(self.path)
        if AWKWARD.search(str(self.path)):
            raise EmbeddedServerError(
                f"PostgreSQL's tools cannot handle the quotes or dollar signs in {self.path}. "
                "Set PENSTOCK_HOME to a plainer path."
            )
        with folders.opened(self.path) as home:
            if account.switch and home.owner[0] == 0:
                os.fchmod(home.descriptor, 0o711)
        if not account.reaches(self.path):
            raise EmbeddedServerError(
                f"the server runs as {account.name!r} when you are root, and that account "
                f"cannot enter {self.path}. Set PENSTOCK_HOME to a directory it can reach, "
                "such as /var/lib/penstock."
            )
        with folders.opened(self.path) as home:
            home.make(HOLDERS, home.owner, mode=0o700)
            self._make_staging(home)
            if not home.is_owned(LOG, account.owner) or home.size(LOG) > LOG_BYTES:
                home.write(LOG, "", account.owner)
            self._open_socket_directory(home, account)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only process that starts, stops or counts; wait for the others."""
        self._make(self.path)
        with folders.opened(self.path) as home:
            descriptor = self._open(home, "lock")
        try:
            _lock_patiently(descriptor, self.path)
            yield
        finally:
            os.close(descriptor)

    def add_holder(self) -> int:
        """Count this process as a user of the server; closing the descriptor ends it."""
        with folders.opened(self.path) as home, home.inside(HOLDERS) as holders:
            descriptor = self._open(holders, f"{os.getpid()}.{next(_sequence)}")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor

    def living_holders(self) -> list[int]:
        """Return the pids that hold the server, and sweep away those that ended."""
        if not self.holders.exists():
            return []
        with folders.opened(self.path) as home, home.inside(HOLDERS) as holders:
            names = [name for name in holders.names() if HOLDER.fullmatch(name)]
            alive = [name for name in names if not _sweep(holders, name)]
        return sorted({int(name.split(".")[0]) for name in alive})

    def set_pin(self) -> None:
        """Say that the server is to stay up without holders."""
        with folders.opened(self.path) as home:
            home.write(PIN, "", home.owner)

    def remove_pin(self) -> None:
        """Take that back; nothing happens when it was not said."""
        if self.path.exists():
            with folders.opened(self.path) as home:
                home.remove(PIN)

    def log_text(self) -> str:
        """What the server has written about its starts and its end."""
        with folders.opened(self.path) as home:
            return home.read(LOG) or ""

    def _make(self, path: Path) -> None:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot create {path} for the embedded server ({error.strerror}). "
                "Set PENSTOCK_HOME to a directory you can write, or PENSTOCK_DSN to use "
                "another server."
            ) from error

    def _open(self, folder: Folder, name: str) -> int:
        """Open or create a lock file that belongs to the owner of the home, also when root made it."""
        try:
            return folder.open_lock(name)
        except PermissionError:
            raise folders.somebody_elses(self.path) from None

    def _make_staging(self, home: Folder) -> None:
        """Make the place for copies of programs, which only the home's owner writes to: root trusts what is there."""
        if home.has(STAGING):
            with home.inside(STAGING) as staging:
                theirs = staging.owner[0] != home.owner[0]
            if theirs:
                shutil.rmtree(self.staging)
        home.make(STAGING, home.owner, mode=0o755)

    def _open_socket_directory(self, home: Folder, account: Account) -> None:
        target = home.link_of(RUN)
        if _fits_a_socket(self.path / RUN):
            if target is not None:
                home.remove(RUN)
            home.make(RUN, account.owner, mode=0o700)
        elif target is None or not _is_private_to(account, target):
            home.remove(RUN)
            home.link(RUN, _short_directory(account))


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


def _is_private_to(account: Account, directory: Path) -> bool:
    try:
        with folders.opened_itself(directory) as folder:
            return folder.owner[0] == account.uid and folder.is_private
    except (OSError, EmbeddedServerError):
        return False


def _short_directory(account: Account) -> Path:
    """Make a private directory with a short path and a name nobody can guess or take."""
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes a private one below
        if base and os.geteuid() == 0 and base == os.environ.get("XDG_RUNTIME_DIR"):
            continue  # closed to the account that runs root's server
        if base and os.access(base, os.W_OK) and _fits_a_socket(Path(base, "penstock-12345678")):
            made = Path(tempfile.mkdtemp(prefix="penstock-", dir=base))
            if account.switch:
                os.chown(made, *account.owner, follow_symlinks=False)
            return made
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


def _sweep(holders: Folder, name: str) -> bool:
    """Remove the file of a holder that ended; a living holder's file stays."""
    descriptor = holders.open_existing(name)
    try:
        if not _try_lock(descriptor):
            return False
        holders.remove(name)
        return True
    finally:
        os.close(descriptor)
