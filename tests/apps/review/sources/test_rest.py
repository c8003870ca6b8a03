"""What a host answers, or fails to, becomes a failure class; no answer fills the memory or moves the login."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from penstock import Failed, FailureClass
from penstock.apps.review.models import Fetched
from penstock.apps.review.sources import rest
from penstock.apps.review.sources.registry import load_sources
from penstock.contract.classify import classify
from tests.apps.review.sources.hosts import BASE, HEAD, GitHub, Reply, listening

PULL = "/repos/acme/shop/pulls/17"
COMPARE = f"/repos/acme/shop/compare/{BASE}...{HEAD}"
MOST = 10_000
LOGIN: dict[str, Any] = {"token": "canary-token"}


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    async with listening(GitHub()) as host:
        host.pull(17)
        yield host


async def fetch(host: GitHub, most: int = MOST, **members: Any) -> Fetched:
    source = load_sources(json.dumps(host.source(**members))).get("hub")
    return await source.fetch("17", max_bytes=most)


async def refusal(host: GitHub, most: int = MOST, **members: Any) -> Failed:
    with pytest.raises(Failed) as failed:
        await fetch(host, most, **members)
    return failed.value


@pytest.mark.contract("E-07")
@pytest.mark.parametrize("path", [PULL, COMPARE])
@pytest.mark.parametrize("status", [401, 403, 407])
async def test_a_refused_login_is_final(github: GitHub, path: str, status: int) -> None:
    github.replies[path] = Reply(status)
    failed = await refusal(github, **LOGIN)
    assert (failed.error_class, failed.upstream_status) == (FailureClass.AUTH_DENIED, status)
    assert not classify(failed, idempotent=True).retryable
    assert "PENSTOCK_REVIEW_SOURCES" in failed.why


@pytest.mark.contract("E-09")
@pytest.mark.parametrize("path", [PULL, COMPARE])
@pytest.mark.parametrize("status", [404, 410])
async def test_what_is_not_there_or_was_deleted_is_final(github: GitHub, path: str, status: int) -> None:
    github.replies[path] = Reply(status)
    failed = await refusal(github)
    assert (failed.error_class, failed.upstream_status) == (FailureClass.NOT_FOUND, status)
    assert not classify(failed, idempotent=True).retryable


@pytest.mark.contract("E-02", "E-04")
@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 529, 599])
async def test_a_host_in_trouble_is_asked_again(github: GitHub, status: int) -> None:
    github.replies[COMPARE] = Reply(status, b"<html>sorry</html>")
    assert classify(await refusal(github), idempotent=True).retryable


@pytest.mark.contract("E-03")
@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        (429, {"Retry-After": "120"}, 120),
        (429, {}, None),
        (403, {"Retry-After": "60"}, 60),
        (
            403,
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225690", "Date": "Thu, 01 Jan 2026 00:00:00 GMT"},
            90,
        ),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, 0),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "never"}, None),
    ],
)
async def test_a_limit_is_waited_for_as_long_as_the_host_says(
    github: GitHub, status: int, headers: dict[str, str], wait: int | None
) -> None:
    github.replies[PULL] = Reply(status, headers=headers)
    failed = await refusal(github)
    assert failed.error_class is FailureClass.RATE_LIMITED
    assert failed.retry_after == (None if wait is None else timedelta(seconds=wait))


@pytest.mark.contract("E-02")
@pytest.mark.parametrize("path", [PULL, COMPARE])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_an_answer_that_breaks_off_is_asked_for_again(github: GitHub, path: str, framing: str) -> None:
    reply = github.replies[path]
    github.replies[path] = Reply(body=reply.body, framing=framing, cut=20)
    failed = await refusal(github)
    assert failed.error_class is FailureClass.NETWORK_RESET
    assert classify(failed).retryable


@pytest.mark.contract("E-02")
async def test_a_host_that_is_away_is_asked_again(github: GitHub) -> None:
    github.url = "http://127.0.0.1:1"
    failed = await refusal(github)
    assert failed.error_class is FailureClass.NETWORK_RESET
    assert classify(failed).retryable


@pytest.mark.contract("E-02")
async def test_a_host_that_says_nothing_is_not_waited_for(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    github.replies[COMPARE] = Reply(silent=True)
    monkeypatch.setattr(rest, "SECONDS", 0.1)
    async with asyncio.timeout(5):
        failed = await refusal(github)
    assert failed.error_class is FailureClass.NETWORK_TIMEOUT
    assert classify(failed).retryable


@pytest.mark.contract("E-04")
@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"<html>"),
        Reply(body=b"[]"),
        Reply(body=b"{}"),
        Reply(body=b"[" * 100_000),
        Reply(body=b'{"base": {"sha": "../../x"}, "head": {"sha": "../../y"}}'),
        Reply(body=b"{}", headers={"Content-Encoding": "gzip"}),
        Reply(body=b"{}", framing="close"),
        Reply(204),
        Reply(body=b" " * 2_000_001),
    ],
    ids=["html", "list", "nothing", "deep", "hostile", "packed", "unframed", "no_content", "endless"],
)
async def test_an_answer_that_is_none_is_the_fault_of_the_host(github: GitHub, reply: Reply) -> None:
    github.replies[PULL] = reply
    failed = await refusal(github)
    assert failed.error_class is FailureClass.UPSTREAM_5XX
    assert github.paths == [PULL]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_the_login_stays_here(github: GitHub, status: int) -> None:
    async with listening(GitHub()) as elsewhere:
        elsewhere.pull(17)
        github.replies[PULL] = Reply(status, headers={"Location": f"{elsewhere.url}{PULL}"})
        failed = await refusal(github, **LOGIN)
        assert failed.error_class is FailureClass.CONFIG_INVALID
        assert elsewhere.asked == []


@pytest.mark.contract("E-06")
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_difference_of_ten_megabytes_is_refused_while_it_comes(github: GitHub, framing: str) -> None:
    github.pull(17, diff=b"+" * 10_000_000)
    github.replies[COMPARE].framing = framing
    failed = await refusal(github)
    assert failed.error_class is FailureClass.PAYLOAD_REJECTED
    assert "10,000 bytes" in failed.why
    assert github.sent < 9_000_000


async def test_a_difference_of_exactly_the_limit_is_taken(github: GitHub) -> None:
    size = len((await fetch(github)).raw)
    assert len((await fetch(github, size)).raw) == size
    assert (await refusal(github, size - 1)).error_class is FailureClass.PAYLOAD_REJECTED


@pytest.mark.contract("C-52")
async def test_the_login_is_in_no_error_no_repr_and_no_log(github: GitHub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    source = load_sources(json.dumps(github.source(**LOGIN))).get("hub")
    await source.fetch("17", max_bytes=MOST)
    github.replies[COMPARE] = Reply(403, b"canary-body")
    failed = await refusal(github, **LOGIN)
    assert github.asked[-1].headers["authorization"] == "Bearer canary-token"
    assert "canary" not in f"{source!r}{failed!r}{failed}{failed.__context__!r}{failed.__cause__!r}{caplog.text}"
