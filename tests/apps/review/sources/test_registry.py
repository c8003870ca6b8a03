"""Sources are read whole or not at all; what is wrong is named, and no value of it repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.apps.review.sources.registry import load_sources
from penstock.contract.errors import EnqueueRefused, SettingsInvalid

GIT: dict[str, Any] = {"kind": "git", "path": "/srv/git/shop.git"}
GITHUB: dict[str, Any] = {"kind": "github", "repository": "acme/shop", "token": "canary"}
GERRIT: dict[str, Any] = {
    "kind": "gerrit", "url": "https://gerrit.test/r/", "project": "acme/shop", "user": "ada", "password": "canary",
}  # fmt: skip
ALL = json.dumps({"shop": GIT, "hub": GITHUB, "gerrit": GERRIT})


def test_sources_come_from_text_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "sources.json"
    file.write_text(ALL)
    for given in (ALL, f"\n {ALL}", str(file)):
        sources = load_sources(given)
        assert sources.names == ("gerrit", "hub", "shop")
        assert [sources.get(name).kind for name in sources.names] == ["gerrit", "github", "git"]


def test_an_unknown_source_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(EnqueueRefused, match="no source is called 'else'; there is gerrit, hub, shop"):
        load_sources(ALL).get("else")
    with pytest.raises(EnqueueRefused, match="PENSTOCK_REVIEW_SOURCES"):
        load_sources(None).get("shop")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({**GIT, "path": "relative/canary"}, "path: must be an absolute path"),
        ({**GIT, "path": "/x\ncanary"}, "path: must be an absolute path"),
        ({"kind": "git"}, "path: Field required"),
        ({**GIT, "url": "canary"}, "url: Extra inputs"),
        ({**GITHUB, "repository": "acme/../canary"}, "repository: "),
        ({**GITHUB, "repository": "canary"}, "repository: "),
        ({**GITHUB, "token": ""}, "token: "),
        ({**GITHUB, "url": "http://canary.test"}, "url: must be an https address"),
        ({**GITHUB, "url": "https://ada:canary@hub.test"}, "url: must be an https address"),
        ({**GITHUB, "url": "https://hub.test/?canary"}, "url: must be an https address"),
        ({**GITHUB, "url": "https://hub.test:canary"}, "url: must be an https address"),
        ({**GITHUB, "url": "file:///canary"}, "url: must be an https address"),
        ({**GERRIT, "project": "../canary"}, "project: "),
        ({**GERRIT, "user": None}, "needs user and password"),
        ({**GERRIT, "password": None}, "needs user and password"),
        ({**GERRIT, "user": "a:canary"}, "user: "),
        ({"kind": "svn"}, 'needs a "kind": one of git, github, gerrit'),
        ({"path": "/canary"}, 'needs a "kind"'),
        (["canary"], 'needs a "kind"'),
        ({"kind": ["git"]}, 'needs a "kind"'),
    ],
)
def test_a_wrong_entry_is_named_with_its_member_and_without_its_values(entry: object, problem: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        load_sources(json.dumps({"shop": GIT, "wrong": entry}))
    assert str(refused.value).startswith("source 'wrong' of reviews")
    assert problem in str(refused.value)
    assert "canary" not in f"{refused.value}{refused.value.__cause__!r}{refused.value.__context__!r}"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("{", "is no JSON"),
        ('{"a": ' * 100_000, "is no JSON"),
        ('{"a": {"kind": "git", "kind": "git"}}', "the member 'kind' twice"),
        ('{"Shop": {}}', "source 'Shop' of reviews: a name is a small letter"),
        ("/nowhere/sources.json", "must be a readable JSON file"),
        ("\x00", "must be a readable JSON file"),
    ],
)
def test_what_is_no_object_of_sources_is_refused(given: str, problem: str) -> None:
    with pytest.raises(SettingsInvalid, match=problem):
        load_sources(given)


def test_plain_http_is_for_this_machine_only() -> None:
    sources = load_sources(json.dumps({"hub": {**GITHUB, "url": "http://127.0.0.1:8080/api/v3/"}}))
    assert sources.names == ("hub",)


def test_no_repr_shows_a_path_or_a_secret() -> None:
    sources = load_sources(ALL)
    shown = "".join(repr(sources.get(name)) for name in sources.names)
    assert "canary" not in shown
    assert "/srv" not in shown
