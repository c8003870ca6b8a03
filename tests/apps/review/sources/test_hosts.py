"""Pull requests of a GitHub and changes of a Gerrit, as they are asked for and as they arrive."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from penstock import Failed, FailureClass
from penstock.apps.review import diff
from penstock.apps.review.models import Fetched
from penstock.apps.review.sources.registry import load_sources
from penstock.contract.classify import classify
from penstock.contract.errors import EnqueueRefused
from tests.apps.review.sources.hosts import BASE, DIFF, HEAD, OTHER, Gerrit, GitHub, Reply, listening

MOST = 10_000
LOGIN: dict[str, Any] = {"token": "canary-token"}


async def fetch(host: GitHub | Gerrit, ref: str, most: int = MOST, **members: Any) -> Fetched:
    sources = load_sources(json.dumps(host.source(**members)))
    source = sources.get(sources.names[0])
    return await source.fetch(source.checked(ref), max_bytes=most)


# ------------------------------------------------------------------------------- GitHub


async def test_a_pull_request_is_the_difference_of_the_two_commits_that_it_names() -> None:
    async with listening(GitHub()) as host:
        host.pull(17)
        fetched = await fetch(host, "#17", **LOGIN)
    assert (fetched.revision, fetched.raw, fetched.facts.base) == (HEAD, DIFF, BASE)
    assert (fetched.facts.title, fetched.facts.author) == ("Sell more", "ada")
    assert fetched.facts.url == "https://github.test/acme/shop/pull/17"
    assert host.paths == ["/repos/acme/shop/pulls/17", f"/repos/acme/shop/compare/{BASE}...{HEAD}"]
    assert [asked.headers["accept"].partition("github")[2] for asked in host.asked] == ["+json", ".diff"]
    assert {asked.headers["authorization"] for asked in host.asked} == {"Bearer canary-token"}


async def test_a_public_repository_needs_no_token() -> None:
    async with listening(GitHub()) as host:
        host.pull(17)
        await fetch(host, "17")
    assert all("authorization" not in asked.headers for asked in host.asked)


async def test_what_a_host_says_of_a_request_is_made_fit_to_be_shown() -> None:
    async with listening(GitHub()) as host:
        host.pull(17, title="x\x1b[31m\x00" + "y" * 900, user=None, html_url="javascript:alert(1)")
        facts = (await fetch(host, "17")).facts
    assert facts.title.startswith(r"x\x1b[31m\x00y")
    assert (len(facts.title), facts.author, facts.url) == (500, "", None)


async def test_a_request_that_github_writes_no_diff_of_is_too_large() -> None:
    async with listening(GitHub()) as host:
        host.pull(17)
        host.replies[f"/repos/acme/shop/compare/{BASE}...{HEAD}"] = Reply(406)
        with pytest.raises(Failed) as failed:
            await fetch(host, "17")
    assert failed.value.error_class is FailureClass.PAYLOAD_REJECTED


@pytest.mark.parametrize(
    "ref", ["", "0", "x", "17/files", "../1", "-1", "1 2", "17?x=y", "\N{FULLWIDTH DIGIT ONE}", "9" * 11]
)
def test_only_a_number_is_a_pull_request(ref: str) -> None:
    source = load_sources('{"hub": {"kind": "github", "repository": "acme/shop"}}').get("hub")
    with pytest.raises(EnqueueRefused, match="number of a pull request"):
        source.checked(ref)


# ------------------------------------------------------------------------------- Gerrit


async def test_a_change_is_the_patch_of_its_newest_commit() -> None:
    async with listening(Gerrit()) as host:
        host.change()
        fetched = await fetch(host, "4711")
    assert (fetched.revision, fetched.facts.base, fetched.raw.strip()) == (HEAD, BASE, DIFF.strip())
    assert (fetched.facts.title, fetched.facts.author) == ("Sell more", "Ada")
    assert fetched.facts.url == f"{host.url}/c/acme/shop/+/4711"
    assert host.paths == [f"{Gerrit.root}/current/commit", f"{Gerrit.root}/{HEAD}/patch"]
    login = base64.b64encode(b"reviewer:canary-password").decode()
    assert {asked.headers["authorization"] for asked in host.asked} == {f"Basic {login}"}


async def test_a_patch_set_can_be_named_and_a_public_project_needs_no_login() -> None:
    async with listening(Gerrit()) as host:
        host.change("2", root=Gerrit.root.removeprefix("/a"))
        fetched = await fetch(host, "4711/2", user=None, password=None)
    assert fetched.revision == HEAD
    assert all("authorization" not in asked.headers for asked in host.asked)


@pytest.mark.contract("E-09")
async def test_a_change_of_another_project_is_not_found() -> None:
    async with listening(Gerrit()) as host:
        host.change()
        with pytest.raises(Failed) as failed:
            await fetch(host, "4711", project="acme/secret")
    assert failed.value.error_class is FailureClass.NOT_FOUND
    assert not classify(failed.value, idempotent=True).retryable


async def test_a_diff_inside_the_message_is_not_taken_for_the_change() -> None:
    message = (
        "Sell more\n\nAs in\n\n---\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n---\n\nChange-Id: I1\n"
    )
    async with listening(Gerrit()) as host:
        host.change(message=message)
        fetched = await fetch(host, "4711")
    assert [file.path for file in diff.parse(fetched.raw).files] == ["f"]


async def test_a_change_without_a_change_gives_nothing() -> None:
    async with listening(Gerrit()) as host:
        host.change(diff=b"")
        assert not (await fetch(host, "4711")).raw.strip()


async def test_a_merge_is_refused_because_gerrit_gives_no_patch_of_it() -> None:
    async with listening(Gerrit()) as host:
        host.change(parents=[{"commit": BASE}, {"commit": OTHER}])
        with pytest.raises(Failed, match="4711 of source 'gerrit' is a merge") as failed:
            await fetch(host, "4711")
    assert failed.value.error_class is FailureClass.PAYLOAD_REJECTED
    assert len(host.asked) == 1


@pytest.mark.contract("E-04")
async def test_a_patch_that_is_not_in_base64_is_the_fault_of_the_host() -> None:
    async with listening(Gerrit()) as host:
        host.change()
        host.replies[f"{Gerrit.root}/{HEAD}/patch"] = Reply(body=b"<html>")
        with pytest.raises(Failed) as failed:
            await fetch(host, "4711")
    assert failed.value.error_class is FailureClass.UPSTREAM_5XX


@pytest.mark.contract("E-06")
@pytest.mark.parametrize("size", [MOST + 1, 10_000_000])
async def test_a_patch_over_the_limit_is_refused(size: int) -> None:
    async with listening(Gerrit()) as host:
        host.change(diff=b"+" * size)
        with pytest.raises(Failed) as failed:
            await fetch(host, "4711")
    assert failed.value.error_class is FailureClass.PAYLOAD_REJECTED
    assert host.sent < 9_000_000


@pytest.mark.parametrize("ref", ["", "x", "4711/", "4711/0", "4711/2/3", "../1", "acme~4711", "4711?o=x", "0"])
def test_only_a_number_and_a_patch_set_are_a_change(ref: str) -> None:
    source = load_sources('{"g": {"kind": "gerrit", "url": "https://gerrit.test", "project": "shop"}}').get("g")
    with pytest.raises(EnqueueRefused, match="is a change, such as 4711"):
        source.checked(ref)
