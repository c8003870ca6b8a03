"""A tree of the repository to measure: this one as it is, or that of a commit."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CONTESTANTS: Final = "bench/contestants"


class Unknown(Exception):
    """The reference names no commit of this repository."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory with `src` and `bench` in it."""

    name: str
    root: Path

    def environment(self) -> dict[str, str]:
        """What makes a process, and those it starts, import this tree and not the installed one."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.root / "src"), str(self.root)])}


def this_tree() -> Tree:
    """The working tree, with what is not committed."""
    return Tree("this", ROOT)


def tree_of(reference: str, folder: Path) -> Tree:
    """Lay out the commit that *reference* names in *folder*.

    Its engine, and its own way to use it (`bench/contestants`), which may have changed with the engine. The
    rest of the bench is this tree's: both are measured by the same code.
    """
    commit = _git("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}").decode().strip()
    if not commit:
        raise Unknown(f"{reference!r} names no commit of this repository; see `git branch` and `git log --oneline`")
    archive = _git("archive", "--format=zip", "-0", commit, "src", CONTESTANTS)
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        files.extractall(folder)
    shutil.copytree(
        ROOT / "bench",
        folder / "bench",
        ignore=shutil.ignore_patterns("contestants", "__pycache__"),
        dirs_exist_ok=True,
    )
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(folder)], check=True)
    return Tree(f"{reference} ({commit[:9]})", folder)


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False).stdout  # noqa: S607  the user's git
