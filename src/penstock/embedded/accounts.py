"""Which operating system account runs the server.

PostgreSQL refuses to run as root. A plain user runs it as themselves; root
hands it to an account without rights that is there for nothing else, and
makes that account at the first start. Nothing outside the home directory is
ever opened up for it: a place it cannot reach is an error, not a reason for
a chmod.
"""

import grp
import os
import pwd
import shutil
import stat
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, Final

from penstock.embedded.errors import EmbeddedServerError

NAME: Final = "penstock"
SHARED: Final = "nobody"
SYSTEM_TOOLS: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
MAKE_TRIES: Final = 20
MAKE_AGAIN: Final = 0.25  # seconds


@dataclass(frozen=True)
class Account:
    """The account of the server; `switch` is true when root must become it first."""

    name: str
    uid: int
    gid: int
    switch: bool = field(default=False)

    @property
    def subprocess_options(self) -> Mapping[str, Any]:
        """The keywords that make `subprocess.run` run a program as this account."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    @property
    def owner(self) -> tuple[int, int]:
        """User and group, as files know them."""
        return self.uid, self.gid

    def reaches(self, path: Path) -> bool:
        """Tell whether the account may enter every directory down to *path*."""
        if not self.switch:
            return True
        return all(self._may_enter(directory) for directory in (path, *path.parents))

    def _may_enter(self, directory: Path) -> bool:
        found = directory.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def account_for(home: Path) -> Account:
    """Return the account that runs the server of *home*.

    Root serves a home that belongs to somebody else as that somebody, so that
    `sudo penstock` does not lock its owner out afterwards. In a home of root's
    own the data says it, once there are any: they may be from before root's
    server had an account of its own. Without data it is `penstock`.
    """
    if os.geteuid() != 0:
        return _current()
    owner = _owner(home) or _owner(home / "data", itself=True)
    return _switch_to(_by_uid(owner) if owner != 0 else _own())


def account_to_start(home: Path) -> Account:
    """The same for a server that is about to start: root's own account is made if need be, and `nobody` is refused.

    Every service without an account of its own runs as `nobody`, and each of
    them could reach the data.
    """
    if os.geteuid() != 0:
        return _current()
    owner = _owner(home) or _owner(home / "data", itself=True)
    if owner in (0, _uid(SHARED)) and _find(NAME) is None:
        make()
    account = account_for(home)
    if account.name == SHARED:
        place = home if _owner(home) != 0 else home / "data"
        raise EmbeddedServerError(
            f"{place} belongs to {SHARED!r}, an account that other services share. Stop the server that uses it "
            f"(penstock db stop), give it to an account of its own (chown -hR {NAME}: {place}), and start again."
        )
    return account


def make() -> None:
    """Make the account of root's servers: no password, no shell, no directory."""
    tool = shutil.which("useradd", path=SYSTEM_TOOLS)
    if tool is None:
        raise _cannot_make("there is no useradd here")
    shell = shutil.which("nologin", path=SYSTEM_TOOLS) or "/bin/false"
    group = ("--gid", NAME) if _has_group(NAME) else ("--user-group",)
    options = ("--system", *group, "--no-create-home", "--home-dir", "/nonexistent", "--shell", shell)
    for _ in range(MAKE_TRIES):
        done = subprocess.run([tool, *options, NAME], capture_output=True, text=True, check=False, stdin=DEVNULL)
        if _find(NAME) is not None:  # made by us, or by another process at the same moment
            return
        time.sleep(MAKE_AGAIN)  # another process has the lock on /etc/passwd
    said = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
    raise _cannot_make(said[-1])


def _cannot_make(reason: str) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"PostgreSQL does not run as root, and the account {NAME!r} that runs root's embedded server could not be "
        f"made ({reason}). Make it where accounts are kept (useradd --system --shell /usr/sbin/nologin {NAME}), "
        "run as a plain user, or set PENSTOCK_DSN to use another server."
    )


def _owner(path: Path, *, itself: bool = False) -> int:
    """The user id of what is at *path*, of a link *itself* where asked; root's when there is nothing."""
    try:
        return path.stat(follow_symlinks=not itself).st_uid
    except FileNotFoundError:
        return 0


def _current() -> Account:
    entry = _by_uid(os.geteuid())
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _switch_to(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def _by_uid(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedServerError(
            f"user id {uid} has no name on this machine, and PostgreSQL asks for one. "
            "Add it to /etc/passwd, or set PENSTOCK_DSN to use another server."
        ) from None


def _own() -> pwd.struct_passwd:
    found = _find(NAME)
    if found is None:
        raise _cannot_make("nothing has started a server yet")
    if found.pw_uid == 0:
        raise EmbeddedServerError(
            f"the account {NAME!r} has root's user id, and PostgreSQL does not run as root. Give it another one, "
            "or set PENSTOCK_DSN to use another server."
        )
    return found


def _find(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _uid(name: str) -> int | None:
    found = _find(name)
    return None if found is None else found.pw_uid


def _has_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True
