"""Which operating system account runs the server.

PostgreSQL refuses to run as root. A plain user runs it as themselves; root
hands it to an account without rights. Nothing outside the home directory is
ever opened up for that account: a place it cannot reach is an error, not a
reason for a chmod.
"""

import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.embedded.errors import EmbeddedServerError

CANDIDATES = ("penstock", "postgres", "nobody")


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

    def give(self, path: Path) -> None:
        """Hand *path* to the account; a plain user owns it already."""
        if self.switch:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

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
    `sudo penstock` does not lock its owner out afterwards.
    """
    if os.geteuid() != 0:
        return _current()
    owner = home.stat().st_uid if home.exists() else 0
    if owner != 0:
        return _switch_to(_by_uid(owner))
    return _switch_to(_unprivileged())


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


def _unprivileged() -> pwd.struct_passwd:
    for name in CANDIDATES:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise EmbeddedServerError(
        "PostgreSQL does not run as root, and none of the accounts "
        f"{', '.join(CANDIDATES)} exists. Create one (useradd --system penstock), "
        "run as a plain user, or set PENSTOCK_DSN."
    )
