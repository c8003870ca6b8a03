"""Changelists from GitHub, or from what speaks its REST API: a pull request by its number.

The request is read first, and then the difference between the two commits that
it named, so that a push in between cannot mix one state's head with another's
diff.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import Field, SecretStr

from penstock.apps.review.models import Facts, Fetched
from penstock.apps.review.sources.port import too_large
from penstock.apps.review.sources.rest import Answered, Rest, asks, talk
from penstock.contract.errors import EnqueueRefused, Failed
from penstock.contract.texts import clean_text

_NUMBER: Final = re.compile(r"#?([1-9][0-9]{0,9})", re.ASCII)
_JSON: Final = "application/vnd.github+json"
_DIFF: Final = "application/vnd.github.diff"
_VERSION: Final = {"X-GitHub-Api-Version": "2022-11-28"}
_NOT_ACCEPTABLE: Final = 406
_LONGEST_URL: Final = 1_000


class _End(Answered):
    sha: Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]


class _User(Answered):
    login: str


class _Pull(Answered):
    base: _End
    head: _End
    title: str = ""
    user: _User | None = None  # somebody who is gone
    html_url: str = ""


@dataclass(frozen=True, slots=True)
class GitHubSource:
    """One repository of a GitHub."""

    name: str
    repository: str
    url: str
    token: SecretStr | None = field(default=None, repr=False)
    kind: str = "github"

    def checked(self, ref: str) -> str:
        """The number of a pull request, without its #."""
        found = _NUMBER.fullmatch(ref.strip())
        if found is None:
            raise EnqueueRefused(f"a changelist of source {self.name!r} is the number of a pull request, such as 17")
        return found[1]

    @asks
    async def fetch(self, ref: str, *, max_bytes: int) -> Fetched:
        """What the pull request changes, open or not."""
        login = {"Authorization": f"Bearer {self.token.get_secret_value()}"} if self.token else {}
        async with talk(self.name, self.url, {**_VERSION, **login}) as rest:
            path = f"/repos/{self.repository}"
            pull = await rest.get_json(f"{path}/pulls/{self.checked(ref)}", _Pull, accept=_JSON)
            raw = await _difference(rest, f"{path}/compare/{pull.base.sha}...{pull.head.sha}", max_bytes)
        return Fetched(pull.head.sha, _facts(pull), raw)


async def _difference(rest: Rest, path: str, max_bytes: int) -> bytes:
    try:
        return await rest.get(path, accept=_DIFF, most=max_bytes)
    except Failed as failed:
        if failed.upstream_status != _NOT_ACCEPTABLE:
            raise
    raise too_large(max_bytes)  # the host's own limit: it writes no diff of more than 20,000 lines


def _facts(pull: _Pull) -> Facts:
    link = pull.html_url
    shown = link.startswith(("https://", "http://")) and link.isprintable() and len(link) <= _LONGEST_URL
    return Facts(
        title=clean_text(pull.title, 500),
        author=clean_text(pull.user.login if pull.user else "", 200),
        base=pull.base.sha,
        url=link if shown else None,
    )
