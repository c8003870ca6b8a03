"""A small repository with five commits, made on the spot: the sample work of the act of reviews."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.demo.stage import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA: Final = Path(__file__).parent / "data" / "shop.json"
OPENED: Final = 1_767_225_600  # seconds; with fixed times two plays have the same commits
PATIENCE: Final = 30.0


@dataclass(frozen=True)
class Commit:
    """One commit of the shop."""

    author: str
    title: str
    files: dict[str, bytes] = field(repr=False)
    revision: str = ""


def build(repository: Path) -> list[Commit]:
    """Make the bare *repository*; its commits from the second on, each a change of the one before."""
    commits = [_commit(each) for each in json.loads(DATA.read_text())["commits"]]
    marks = repository.with_suffix(".marks")
    _git("init", "--quiet", "--bare", "--initial-branch=main", str(repository))
    stream = b"".join(part for number, commit in enumerate(commits, 1) for part in _lines(number, commit))
    _git("-C", str(repository), "fast-import", "--quiet", f"--export-marks={marks}", given=stream)
    revisions = dict(line.split() for line in marks.read_text().splitlines())
    marks.unlink()
    made = [
        Commit(commit.author, commit.title, commit.files, revisions[f":{number}"])
        for number, commit in enumerate(commits, 1)
    ]
    return made[1:]


def _commit(found: dict[str, Any]) -> Commit:
    texts = {path: "".join(f"{line}\n" for line in lines).encode() for path, lines in found["files"].items()}
    pictures = {path: b64decode(picture) for path, picture in found.get("pictures", {}).items()}
    return Commit(found["author"], found["title"], {**texts, **pictures})


def _lines(number: int, commit: Commit) -> Iterator[bytes]:
    """The commit in the language of `git fast-import`."""
    who = f"{commit.author} <{commit.author.lower()}@shop.example> {OPENED + number * 3600} +0000"
    yield f"commit refs/heads/main\nmark :{number}\ncommitter {who}\n".encode()
    yield _data(commit.title.encode())
    for path, content in commit.files.items():
        yield f"M 100644 inline {path}\n".encode()
        yield _data(content)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _git(*command: str, given: bytes = b"") -> None:
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(
        ["git", *command],  # noqa: S607 - whichever git the audience has
        input=given,
        env={**clean_environment(), **quiet},
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
