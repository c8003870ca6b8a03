"""Changelists from Gerrit's REST API: a change by its number, and a patch set of it where one is named.

The commit is read first, and then the patch of that very commit. Every path
names the project too, so that a number of another project is not found.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Annotated, Final
from urllib.parse import quote

from pydantic import Field, SecretStr

from penstock.apps.review.models import Facts, Fetched
from penstock.apps.review.sources.port import too_large
from penstock.apps.review.sources.rest import Answered, asks, talk
from penstock.contract.errors import EnqueueRefused, Failed
from penstock.contract.failures import FailureClass
from penstock.contract.texts import clean_text
from penstock.providers.failing import Unreadable

_CHANGE: Final = re.compile(r"([1-9][0-9]{0,9})(?:/([1-9][0-9]{0,4}))?", re.ASCII)
_GUARD: Final = b")]}'"  # before all JSON, so that no browser runs it
_MAIL: Final = 100_000  # bytes of the mail around a patch
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]


class _Parent(Answered):
    commit: Sha


class _Person(Answered):
    name: str = ""


class _Commit(Answered):
    commit: Sha
    parents: tuple[_Parent, ...] = ()
    author: _Person = _Person()
    subject: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class GerritSource:
    """One project of a Gerrit."""

    name: str
    url: str
    project: str
    login: tuple[str, SecretStr] | None = field(default=None, repr=False)
    kind: str = "gerrit"

    def checked(self, ref: str) -> str:
        """The number of a change, and of a patch set behind a slash."""
        if _CHANGE.fullmatch(ref.strip()) is None:
            raise EnqueueRefused(
                f"a changelist of source {self.name!r} is a change, such as 4711, or a patch set of it, such as 4711/2"
            )
        return ref.strip()

    @asks
    async def fetch(self, ref: str, *, max_bytes: int) -> Fetched:
        """What the change, in its newest patch set or in the one that *ref* names, does to its parent."""
        change, _, patch_set = self.checked(ref).partition("/")
        path = f"{'/a' if self.login else ''}/changes/{quote(self.project, safe='')}~{change}/revisions"
        async with talk(self.name, self.url, self._headers()) as rest:
            commit = await rest.get_json(f"{path}/{patch_set or 'current'}/commit", _Commit, prefix=_GUARD)
            if len(commit.parents) > 1:
                raise Failed(
                    FailureClass.PAYLOAD_REJECTED,
                    f"change {change} of source {self.name!r} is a merge, of which Gerrit gives no patch",
                )
            most = (max_bytes + _MAIL) * 4 // 3 + 4
            coded = await rest.get(
                f"{path}/{commit.commit}/patch", accept="text/plain", most=most, over=too_large(max_bytes)
            )
        raw = _difference(coded, commit.message)
        if len(raw) > max_bytes:
            raise too_large(max_bytes)
        return Fetched(commit.commit, self._facts(change, commit), raw)

    def _headers(self) -> dict[str, str]:
        if self.login is None:
            return {}
        user, password = self.login
        coded = base64.b64encode(f"{user}:{password.get_secret_value()}".encode()).decode()
        return {"Authorization": f"Basic {coded}"}

    def _facts(self, change: str, commit: _Commit) -> Facts:
        return Facts(
            title=clean_text(commit.subject, 500),
            author=clean_text(commit.author.name, 200),
            base=commit.parents[0].commit if commit.parents else "",
            url=f"{self.url}/c/{quote(self.project)}/+/{change}"[:1_000],
        )


def _difference(coded: bytes, message: str) -> bytes:
    """The diff of a patch in base64, without the mail around it: a message may hold a diff of its own."""
    try:
        patch = base64.b64decode(b"".join(coded.split()), validate=True)
    except ValueError:
        patch = None
    if patch is None:
        raise Unreadable
    if not patch.startswith(b"From "):
        return patch
    body = message.partition("\n")[2].strip().encode()
    _, _, behind = patch.partition(body) if body and body in patch else (b"", b"", patch)
    _, rule, difference = behind.partition(b"\n---\n")
    return difference if rule else behind
