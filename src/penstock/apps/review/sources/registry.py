"""The sources that whoever runs the application has named, read from one JSON object.

Paths, hosts and credentials stand there and nowhere else. A caller names a
source and a ref in it, so the worst that a caller can ask for is a changelist
that is not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError, model_validator

from penstock.apps.review.models import Strict
from penstock.apps.review.sources.gerrit import GerritSource
from penstock.apps.review.sources.git import GitSource
from penstock.apps.review.sources.github import GitHubSource
from penstock.apps.review.sources.port import Source
from penstock.contract.errors import EnqueueRefused, SettingsInvalid
from penstock.contract.json_settings import json_of
from penstock.contract.places import is_this_machine

TABLE: Final = "the table of review sources"
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,49}", re.ASCII)
_SEGMENT: Final = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"  # neither . nor ..


def _absolute(path: str) -> str:
    if not path.startswith("/") or not path.isprintable():
        raise ValueError("must be an absolute path")
    return path


def _address(url: str) -> str:
    """An address that a credential may be sent to."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    plain = url.isascii() and url.isprintable() and "@" not in url and "?" not in url and "#" not in url
    if not (host and plain and (parts.scheme == "https" or (parts.scheme == "http" and is_this_machine(host)))):
        raise ValueError(
            "must be an https address without name, password, query or fragment; http to this machine only"
        )
    return url.rstrip("/")


Address = Annotated[str, Field(max_length=500), AfterValidator(_address)]
Secret = Annotated[SecretStr, Field(min_length=1, max_length=1000)]


class GitEntry(Strict):
    """A repository on this machine, bare or not."""

    kind: Literal["git"]
    path: Annotated[str, Field(max_length=1000), AfterValidator(_absolute)]

    def build(self, name: str) -> Source:
        """The source that this describes."""
        return GitSource(name, Path(self.path))


class GitHubEntry(Strict):
    """A repository behind GitHub's REST API."""

    kind: Literal["github"]
    repository: Annotated[str, Field(pattern=rf"^{_SEGMENT}/{_SEGMENT}$")]
    token: Secret | None = None
    url: Address = "https://api.github.com"

    def build(self, name: str) -> Source:
        """The source that this describes."""
        return GitHubSource(name, self.repository, self.url, self.token)


class GerritEntry(Strict):
    """A project behind Gerrit's REST API."""

    kind: Literal["gerrit"]
    url: Address
    project: Annotated[str, Field(pattern=rf"^{_SEGMENT}(/{_SEGMENT}){{0,20}}$")]
    user: Annotated[str | None, Field(pattern=r"^[^:\s]{1,200}$")] = None
    password: Secret | None = None

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.user is None) is not (self.password is None):
            raise ValueError("needs user and password, or neither")
        return self

    def build(self, name: str) -> Source:
        """The source that this describes."""
        login = None if self.user is None or self.password is None else (self.user, self.password)
        return GerritSource(name, self.url, self.project, login)


Entry = GitEntry | GitHubEntry | GerritEntry
KINDS: Final[Mapping[str, type[Entry]]] = {"git": GitEntry, "github": GitHubEntry, "gerrit": GerritEntry}


class Sources:
    """The sources there are, by name."""

    def __init__(self, sources: Mapping[str, Source] | None = None) -> None:
        self._sources = dict(sources or {})

    @property
    def names(self) -> tuple[str, ...]:
        """What a changelist may begin with."""
        return tuple(sorted(self._sources))

    def get(self, name: str) -> Source:
        """The source of this name; `EnqueueRefused` names those there are."""
        found = self._sources.get(name)
        if found is None:
            known = f"there is {', '.join(self.names)}" if self._sources else "none is set up: PENSTOCK_REVIEW_SOURCES"
            raise EnqueueRefused(f"no source is called {name[:50]!r}; {known}")
        return found


def load_sources(text_or_file: str | None) -> Sources:
    """Read the sources from JSON text, or from the file that holds it; None is none.

    An entry that is wrong is refused with its name and member, and none of its
    values: one of them may be a password.
    """
    if text_or_file is None:
        return Sources()
    entries = json_of(text_or_file, TABLE)
    if not isinstance(entries, dict):
        raise SettingsInvalid(f"{TABLE} must be a JSON object of named sources")
    return Sources({name: _source(name, entry) for name, entry in entries.items()})


def _source(name: str, entry: object) -> Source:
    where = f"source {name[:50]!r} of reviews"
    if not _NAME.fullmatch(name):
        raise SettingsInvalid(f"{where}: a name is a small letter and up to 49 of a-z, 0-9, _ and -")
    kind = KINDS.get(entry["kind"]) if isinstance(entry, dict) and isinstance(entry.get("kind"), str) else None
    if kind is None:
        raise SettingsInvalid(f'{where} needs a "kind": one of {", ".join(KINDS)}')
    return _checked(where, kind.model_validate, entry).build(name)


def _checked(where: str, validate: Callable[[object], Entry], entry: object) -> Entry:
    problem = ""
    try:
        return validate(entry)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        problem = ": ".join(
            [*(str(step)[:40] for step in first["loc"][:1]), first["msg"].removeprefix("Value error, ")]
        )
    raise SettingsInvalid(f"{where}: {problem}")
