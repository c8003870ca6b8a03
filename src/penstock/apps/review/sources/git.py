"""Changelists from a git repository on this machine: a commit, a branch or tag, or a range of two.

A commit is shown against its first parent, a root commit against nothing;
`a..b` is what differs between the two, `a...b` what b has changed since it
left a. A ref that moves is the commit that it points at when it is fetched.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.apps.review.models import Facts, Fetched
from penstock.apps.review.sources import commands
from penstock.contract.errors import EnqueueRefused, Failed
from penstock.contract.failures import FailureClass
from penstock.contract.texts import clean_text

# It begins with no dash and no dot, and has no colon, space or brace: neither an option nor a path nor a search.
_NAME: Final = r"[\w@](?:(?!\.\.)[\w@./+=#-]){0,199}(?:[~^][0-9]{0,4}){0,9}"
_REF: Final = re.compile(rf"(?P<first>{_NAME})(?:(?P<dots>\.{{2,3}})(?P<second>{_NAME}))?")
_EMPTY_TREE: Final = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_SHORT: Final = 1_000
_COMMIT: Final = 1_000_000  # bytes of a commit's own text
# Nothing here can start a program, and no setting of the repository changes what is written.
_PATCH: Final = (
    "diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--find-renames",
    "--unified=3", "--inter-hunk-context=0", "--submodule=short", "--ignore-submodules=none", "--no-relative",
    "--diff-algorithm=histogram", "--src-prefix=a/", "--dst-prefix=b/", "--end-of-options",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GitSource:
    """One repository, bare or with a working tree."""

    name: str
    path: Path = field(repr=False)
    kind: str = "git"

    def checked(self, ref: str) -> str:
        """*ref*, if git could know it."""
        return self._read(ref)[0]

    async def fetch(self, ref: str, *, max_bytes: int) -> Fetched:
        """The difference that *ref* names, within a time limit for all of it."""
        try:
            async with asyncio.timeout(commands.SECONDS):
                return await self._fetch(self._read(ref), max_bytes)
        except TimeoutError:
            raise Failed(
                FailureClass.NETWORK_TIMEOUT, f"git took longer than {commands.SECONDS:.0f} s in source {self.name!r}"
            ) from None

    def _read(self, ref: str) -> re.Match[str]:
        found = _REF.fullmatch(ref.strip())
        if found is None:
            raise EnqueueRefused(
                f"this is no ref of source {self.name!r}; name a commit, a branch or a tag, or two as a..b or a...b"
            )
        return found

    async def _fetch(self, ref: re.Match[str], max_bytes: int) -> Fetched:
        directory = self._directory()
        tip = await self._resolve(directory, ref["second"] or ref["first"])
        commit = await _commit(directory, tip)
        base = commit.parent or _EMPTY_TREE[len(tip)]
        if ref["second"]:
            base = await self._resolve(directory, ref["first"])
        if ref["dots"] == "...":
            base = await self._common(directory, base, tip)
        raw = await self._patch(directory, base, tip, max_bytes)
        return Fetched(tip, Facts(title=commit.title, author=commit.author, base=base), raw)

    def _directory(self) -> Path:
        """Where the repository keeps its objects; a file in its place leads there, and git follows it."""
        inside = self.path / ".git"
        directory = inside if inside.exists() else self.path
        if not directory.exists():
            raise Failed(FailureClass.NOT_FOUND, f"there is no repository where source {self.name!r} should be")
        if not os.access(directory, os.R_OK):
            raise Failed(FailureClass.AUTH_DENIED, f"the worker may not read the repository of source {self.name!r}")
        return directory

    async def _resolve(self, directory: Path, name: str) -> str:
        ran = await commands.run(
            directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", most=_SHORT
        )
        found = ran.output.decode("ascii", "replace").strip()
        if ran.code or len(found) not in _EMPTY_TREE:
            raise Failed(FailureClass.NOT_FOUND, f"the repository of source {self.name!r} has no such commit")
        return found

    async def _common(self, directory: Path, one: str, other: str) -> str:
        ran = await commands.run(directory, "merge-base", one, other, most=_SHORT)
        found = ran.output.decode("ascii", "replace").split()
        if not found:
            raise Failed(FailureClass.NOT_FOUND, f"the two commits in source {self.name!r} have no common ancestor")
        return found[0]

    async def _patch(self, directory: Path, base: str, tip: str, max_bytes: int) -> bytes:
        ran = await commands.run(directory, *_PATCH, base, tip, most=max_bytes)
        if ran.code == 0:
            return ran.output
        if base not in _EMPTY_TREE.values():
            await self._resolve(directory, base)  # a shallow clone has no parent to compare with: that is final
        raise Failed(FailureClass.UPSTREAM_5XX, f"git could not compare two commits in source {self.name!r}")


@dataclass(frozen=True, slots=True)
class _Commit:
    parent: str | None
    title: str
    author: str


async def _commit(directory: Path, commit: str) -> _Commit:
    """What a commit says of itself, read from the object: no signature is checked, and no other name is looked up."""
    ran = await commands.run(directory, "cat-file", "commit", commit, most=_COMMIT)
    if ran.code:
        raise Failed(FailureClass.UPSTREAM_5XX, "git could not read a commit that it knows")
    head, _, message = ran.output.partition(b"\n\n")
    fields = dict(line.partition(b" ")[::2] for line in reversed(head.split(b"\n")))  # the first of each counts
    encoding = fields.get(b"encoding", b"utf-8").decode("ascii", "replace")
    title = _decoded(message.lstrip(b"\n").partition(b"\n")[0], encoding)
    author = _decoded(fields.get(b"author", b"").partition(b" <")[0], encoding)
    parent = fields.get(b"parent", b"").decode("ascii", "replace")
    return _Commit(parent or None, clean_text(title, 500), clean_text(author, 200))


def _decoded(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding, "replace")
    except (LookupError, ValueError):
        return raw.decode("utf-8", "replace")
