"""A small repository with a branch for every kind of commit, written by one run of git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

AUTHOR = b"Ada Lovelace <ada@example.org> 1790000000 +0000"
BINARY = bytes(range(256)) * 4
LARGE = (b"a line of a large file" * 4 + b"\n") * 120_000  # 10 MB
ROOT = {"a.py": b"one\ntwo\nthree\n", "old name.txt": b"".join(b"word %d\n" % number for number in range(20))}
LIBRARY = "1" * 40


def git(directory: Path, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> bytes:
    """Git as anybody runs it, with all its settings."""
    program = shutil.which("git")
    assert program
    given = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", **(env or {})}
    done = subprocess.run([program, *arguments], cwd=directory, input=stdin, env=given, capture_output=True, check=True)
    return done.stdout


def data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def put(path: str, content: bytes, mode: str = "100644") -> bytes:
    return f"M {mode} inline {path}\n".encode() + data(content)


class Script:
    """The commits of a repository; each is on a branch of its own."""

    def __init__(self) -> None:
        self.text = b""
        self._marks: dict[str, int] = {}

    def commit(
        self, branch: str, *changes: bytes, parents: tuple[str, ...] = (), title: bytes = b"", extra: bytes = b""
    ) -> None:
        """One commit with these changes on top of the branches that are its parents."""
        mark = self._marks[branch] = len(self._marks) + 1
        ancestry = [b"from", *([b"merge"] * (len(parents) - 1))]
        lines = [
            b"%b :%d\n" % (word, self._marks[name]) for word, name in zip(ancestry, parents, strict=False) if parents
        ]
        head = f"commit refs/heads/{branch}\nmark :{mark}\n".encode()
        people = b"author %b\ncommitter %b\n" % (AUTHOR, AUTHOR)
        self.text += head + people + extra + data(title or branch.encode()) + b"".join([*lines, *changes]) + b"\n"


def script() -> bytes:
    """All the kinds there are."""
    history = Script()
    history.commit("root", *(put(name, content) for name, content in ROOT.items()), title=b"Begin\n\nwith a body")
    change = put("a.py", b"one\ntwo!\nthree\nfour\n")
    history.commit("change", change, parents=("root",), title="Grüße".encode("latin-1"), extra=b"encoding ISO-8859-1\n")
    history.commit("topic", put("topic.py", b"new\n"), parents=("root",))
    history.commit("merge", put("topic.py", b"new\n"), parents=("change", "topic"))
    renamed = b'R "old name.txt" new.txt\n' + put("new.txt", ROOT["old name.txt"] + b"more\n")
    history.commit("renamed", renamed, parents=("root",))
    history.commit("moved", b'R "old name.txt" new.txt\n', parents=("root",))
    history.commit("binary", put("logo.png", BINARY), parents=("root",))
    history.commit("mode", put("a.py", ROOT["a.py"], "100755"), parents=("root",))
    history.commit("removed", b"D a.py\n", parents=("root",))
    history.commit("submodule", f"M 160000 {LIBRARY} lib\n".encode(), parents=("root",))
    history.commit("empty", parents=("root",))
    odd = [
        put('"\\303\\244 \\"q\\"\\t.txt"', b"x\n"),
        put("crlf.txt", b"a\r\nb\r\n"),
        put("latin.txt", b"caf\xe9\nend"),
    ]
    history.commit("odd", *odd, parents=("root",))
    history.commit("large", put("large.txt", LARGE), parents=("root",))
    history.commit("unrelated", put("else.py", b"x\n"))
    return history.text


def bare(directory: Path, stdin: bytes, *options: str) -> Path:
    """A bare repository with what *stdin* tells fast-import."""
    directory.mkdir()
    git(directory, "init", "--bare", "--quiet", "--initial-branch=main", *options)
    git(directory, "-c", "core.compression=0", "fast-import", "--quiet", stdin=stdin)
    return directory
