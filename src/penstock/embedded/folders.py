"""Directories by descriptor, for a root that writes where another account is at home.

Who owns a directory can put a link in the place of any name in it, at any
moment. So nothing here goes by a path twice: a directory is opened once and
looked at, names in it are taken relative to it, a link is never followed, and
a file is written beside its place and moved there, which leaves alone what
the name led to before. What root makes it hands over by its descriptor.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.embedded.errors import EmbeddedServerError

MOST_BYTES: Final = 4_000_000  # of a file that is read: logs and configuration are smaller
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe in the place of a file does not hold us up
_NEW: Final = os.O_CREAT | os.O_EXCL

Owner = tuple[int, int]  # user and group


@dataclass(frozen=True)
class Folder:
    """A directory that is open."""

    path: Path  # for messages
    descriptor: int

    @property
    def owner(self) -> Owner:
        """To whom it belongs."""
        found = os.fstat(self.descriptor)
        return found.st_uid, found.st_gid

    @property
    def is_private(self) -> bool:
        """Whether it is closed to everyone but its owner."""
        return not stat.S_IMODE(os.fstat(self.descriptor).st_mode) & 0o077

    def names(self) -> list[str]:
        """What is in it."""
        return sorted(os.listdir(self.descriptor))  # noqa: PTH208 - a descriptor has no path

    def has(self, name: str) -> bool:
        """Whether there is something of that name, a link to nowhere included."""
        return self._look(name) is not None

    def is_owned(self, name: str, owner: Owner) -> bool:
        """Whether *name* is a file that *owner* has, under this name only."""
        found = self._look(name)
        return found is not None and stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == owner[0]

    def size(self, name: str) -> int:
        """How large the file is; 0 when there is none."""
        found = self._look(name)
        return 0 if found is None else found.st_size

    def read(self, name: str) -> str | None:
        """The text of a file; None when there is none, or something else in its place."""
        try:
            descriptor = os.open(name, os.O_RDONLY | _FILE, dir_fd=self.descriptor)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            file.seek(max(0, os.fstat(descriptor).st_size - MOST_BYTES))
            return file.read(MOST_BYTES).decode(errors="replace")

    def write(self, name: str, text: str, owner: Owner, *, mode: int = 0o600) -> None:
        """Put a new file in the place of *name*, whatever is there."""
        growing = f"{name}.{os.getpid()}.new"
        with suppress(FileNotFoundError):
            os.unlink(growing, dir_fd=self.descriptor)
        descriptor = os.open(growing, os.O_WRONLY | _NEW | _FILE, mode, dir_fd=self.descriptor)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fchmod(descriptor, mode)
            _give(descriptor, owner)
        os.rename(growing, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def open_lock(self, name: str) -> int:
        """The descriptor of a file to lock; made if need be, and then its folder's owner's. A link is refused."""
        while True:
            with suppress(FileExistsError):
                made = os.open(name, os.O_RDWR | _NEW | _FILE, 0o600, dir_fd=self.descriptor)
                _give(made, self.owner)
                return made
            with suppress(FileNotFoundError):
                return self.open_existing(name)

    def open_existing(self, name: str) -> int:
        """The same for a file that is there."""
        try:
            return os.open(name, os.O_RDWR | _FILE, dir_fd=self.descriptor)
        except OSError as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            raise EmbeddedServerError(f"{self.path / name} is no file of ours ({error.strerror}); remove it.") from None

    def remove(self, name: str) -> None:
        """Remove a file or a link, not what it leads to; nothing happens when there is none."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def rename(self, name: str, to: str) -> None:
        """Give what is there another name."""
        os.rename(name, to, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def link_of(self, name: str) -> Path | None:
        """Where the link leads; None when it is none."""
        try:
            return Path(os.readlink(name, dir_fd=self.descriptor))
        except OSError:
            return None

    def link(self, name: str, target: Path) -> None:
        """Make a link to *target*."""
        os.symlink(target, name, dir_fd=self.descriptor)

    @contextmanager
    def inside(self, name: str) -> Iterator["Folder"]:
        """A directory in it."""
        with _opened(self.path / name, name, self.descriptor) as folder:
            yield folder

    def make(self, name: str, owner: Owner, *, mode: int) -> None:
        """Make a directory unless it is there; in both cases it is *owner*'s, with *mode*, afterwards."""
        with suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=self.descriptor)
        with self.inside(name) as folder:
            os.fchmod(folder.descriptor, mode)
            _give(folder.descriptor, owner)

    def _look(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except OSError:
            return None


@contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """The directory at *path*, which may be a link of the caller's."""
    with _opened(path, str(path), None, follow=True) as folder:
        yield folder


@contextmanager
def opened_itself(path: Path) -> Iterator[Folder]:
    """The directory at *path*; a link in its place is refused."""
    with _opened(path, str(path), None) as folder:
        yield folder


@contextmanager
def _opened(path: Path, name: str, within: int | None, *, follow: bool = False) -> Iterator[Folder]:
    """A plain user who made a link for a reason has it followed; root would follow somebody else's."""
    follow = follow or os.geteuid() != 0
    try:
        descriptor = os.open(name, _DIRECTORY | (0 if follow else os.O_NOFOLLOW), dir_fd=within)
    except PermissionError:
        raise somebody_elses(path) from None
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise EmbeddedServerError(
            f"{path} is a link or no directory, and root does not follow it; put the directory itself there."
        ) from None
    try:
        yield Folder(path, descriptor)
    finally:
        os.close(descriptor)


def somebody_elses(path: Path) -> EmbeddedServerError:
    """The error for a server that the caller has no part in."""
    return EmbeddedServerError(
        f"the embedded server in {path} belongs to somebody else. "
        "Set PENSTOCK_HOME to a directory of your own, or PENSTOCK_DSN to use another server."
    )


def _give(descriptor: int, owner: Owner) -> None:
    """Hand over; who is not root makes only what is their own."""
    if os.geteuid() == 0:
        os.fchown(descriptor, *owner)
