"""Live streams on a real server: one's own home, everything once, nothing more than four members."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from penstock.settings import load_settings
from penstock.store.api_keys import Scope
from penstock.web import create_app
from penstock.web.streams import Streams
from tests.web.conftest import HOME, OTHER_HOME, Keys, LateLogins, Spy, a_request, bearer, move
from tests.web.live import Reader, following, serving

Owner = psycopg.Connection[dict[str, Any]]


def made(dsns: dict[Scope, str], spy: Spy, **options: Any) -> FastAPI:
    logins = LateLogins(dsns)
    frontend = dsns[Scope.FRONTEND]
    given = {"listen_dsn": frontend, "most": 50, "pause": 0.0, **options}
    streams = Streams(lambda: logins.pool(Scope.FRONTEND), **given)
    return create_app(load_settings(), logins, rewriting=spy, homes=spy, streams=streams)


@pytest.fixture
async def live(dsns: dict[Scope, str], spy: Spy) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server whose streams look when they are poked, and hardly ever else."""
    async with serving(made(dsns, spy, heartbeat=60.0)) as (_, client):
        yield client


@pytest.mark.contract("Q-84", "C-56", "Q-05")
async def test_a_stream_tells_what_is_and_then_what_changes(live: httpx.AsyncClient, keys: Keys, owner: Owner) -> None:
    first, second = a_request(owner), a_request(owner)
    move(owner, first, "queued")
    async with following(live, keys.make("frontend")) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        told = [event.told for event in await stream.snapshot()]
        assert told == [(str(second), "received"), (str(first), "queued")], "in the order of their changes"
        move(owner, second, "queued")
        event = await stream.next()
        assert (event.name, event.told) == ("status", (str(second), "queued"))
        assert event.data.keys() == {"rewrite_request_id", "status", "completed_at", "failure_code"}


@pytest.mark.contract("A-47", "A-68", "R-23")
async def test_a_failure_is_told_by_the_one_general_code(live: httpx.AsyncClient, keys: Keys, owner: Owner) -> None:
    failed = a_request(owner)
    async with following(live, keys.make("frontend")) as stream:
        await stream.snapshot()
        move(owner, failed, "failed")
        event = await stream.next()
    assert event.data == {
        "rewrite_request_id": str(failed), "status": "failed", "completed_at": None,
        "failure_code": "rewrite_unavailable",
    }  # fmt: skip


@pytest.mark.contract("C-56")
async def test_every_stream_tells_its_own_home_only(live: httpx.AsyncClient, keys: Keys, owner: Owner) -> None:
    ours, theirs = a_request(owner, HOME), a_request(owner, OTHER_HOME)
    async with (
        following(live, keys.make("frontend", home_id=HOME)) as here,
        following(live, keys.make("frontend", home_id=HOME)) as beside,
        following(live, keys.make("frontend", home_id=OTHER_HOME)) as there,
    ):
        for stream, request in ((here, ours), (beside, ours), (there, theirs)):
            assert [event.told for event in await stream.snapshot()] == [(str(request), "received")]
        move(owner, theirs, "queued")
        assert (await there.next()).told == (str(theirs), "queued")
        move(owner, ours, "queued")
        assert (await here.next()).told == (str(ours), "queued"), "and nothing of the other home before it"
        assert (await beside.next()).told == (str(ours), "queued")


async def test_a_stream_goes_on_where_another_was_cut(live: httpx.AsyncClient, keys: Keys, owner: Owner) -> None:
    token, request = keys.make("frontend"), a_request(owner)
    async with following(live, token) as stream:
        (seen,) = await stream.snapshot()
    move(owner, request, "queued")
    others = [a_request(owner) for _ in range(3)]
    async with following(live, token, seen.id) as stream:
        told = [event.told for event in await stream.snapshot()]
    assert told == [(str(request), "queued"), *((str(other), "received") for other in others)]
    owner.execute("insert into penstock.clock (shift) values (interval '1 hour')")
    late = a_request(owner)
    async with following(live, token) as stream:
        newest = (await stream.snapshot())[-1].id
    async with following(live, token, newest) as stream:
        assert [event.told for event in await stream.snapshot()] == [(str(late), "received")], "not what is long ago"


@pytest.mark.parametrize("last", ["", "x", "-1", "1.5", "9" * 18, "canary"])
async def test_a_last_event_that_is_none_is_refused(live: httpx.AsyncClient, keys: Keys, last: str) -> None:
    headers = {**bearer(keys.make("frontend")), "Last-Event-ID": last}
    answer = await live.get("/rewrites/stream", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "input_invalid")
    assert "canary" not in answer.text


async def test_a_change_that_commits_after_a_later_one_was_told_is_told_too(
    live: httpx.AsyncClient, keys: Keys, owner: Owner, dsn: str
) -> None:
    slow, quick = a_request(owner), a_request(owner)
    async with following(live, keys.make("frontend")) as stream:
        await stream.snapshot()
        with psycopg.connect(dsn) as under_way:
            move(under_way, slow, "queued")  # type: ignore[arg-type]  # rows are not looked at
            move(owner, quick, "queued")
            assert (await stream.next()).told == (str(quick), "queued")
            under_way.commit()
        assert (await stream.next()).told == (str(slow), "queued")
        move(owner, quick, "canceled")
        assert (await stream.next()).told == (str(quick), "canceled"), "and nothing twice"


async def test_a_revoked_key_gets_not_a_row_more(live: httpx.AsyncClient, keys: Keys, owner: Owner) -> None:
    token, request = keys.make("frontend"), a_request(owner)
    async with following(live, token) as stream:
        await stream.snapshot()
        keys.revoke(token)
        move(owner, request, "queued")
        event = await stream.next()
        assert (event.name, event.data) == ("end", {"code": "key_refused"})
        await stream.ended()
    assert (await live.get("/rewrites/stream", headers=bearer(token))).status_code == 401


async def test_a_revoked_key_is_noticed_without_any_change(dsns: dict[Scope, str], spy: Spy, keys: Keys) -> None:
    async with serving(made(dsns, spy, heartbeat=0.05)) as (_, client):
        tokens = keys.make("frontend"), keys.make("frontend", valid=timedelta(hours=1))
        async with following(client, tokens[0]) as revoked, following(client, tokens[1]) as expired:
            for stream in (revoked, expired):
                await stream.snapshot()
                await stream.comment()
            keys.revoke(tokens[0])
            assert (await revoked.next()).data == {"code": "key_refused"}
            await expired.comment()
            keys.owner.execute("insert into penstock.clock (shift) values (interval '2 hours')")
            assert (await expired.next()).data == {"code": "key_refused"}


async def test_there_is_room_for_so_many_streams(dsns: dict[Scope, str], spy: Spy, keys: Keys) -> None:
    async with serving(made(dsns, spy, most=12, heartbeat=0.05)) as (_, client), AsyncExitStack() as stack:
        token, other = keys.make("frontend"), keys.make("frontend")

        async def one_more(key: str) -> Reader:
            return await stack.enter_async_context(following(client, key))

        for _ in range(10):
            await one_more(token)
        answer = await client.get("/rewrites/stream", headers=bearer(token))
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_streams")
        await one_more(other)
        await one_more(other)
        answer = await client.get("/rewrites/stream", headers=bearer(other))
        assert (answer.status_code, answer.json()["code"]) == (503, "streams_full")
        assert answer.headers["retry-after"]


async def test_a_reader_that_leaves_gives_its_place_back(dsns: dict[Scope, str], spy: Spy, keys: Keys) -> None:
    app = made(dsns, spy, most=1, heartbeat=0.05)
    async with serving(app) as (_, client):
        token = keys.make("frontend")
        for _ in range(3):
            async with following(client, token) as stream:
                await stream.snapshot()
                assert app.state.streams.count == 1
            async with asyncio.timeout(10):
                while app.state.streams.count:
                    await client.get("/healthz")  # the other end learns of it through the network


async def test_a_listener_that_was_cut_off_comes_back_and_nothing_is_missed(
    live: httpx.AsyncClient, keys: Keys, owner: Owner, superuser_dsn: str
) -> None:
    request = a_request(owner)
    async with following(live, keys.make("frontend")) as stream:
        await stream.snapshot()
        with psycopg.connect(superuser_dsn, autocommit=True) as superuser:
            superuser.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                "where application_name = 'penstock listener' and datname = current_database()"
            )
        move(owner, request, "queued")
        assert (await stream.next()).told == (str(request), "queued")


async def test_a_server_that_stops_says_goodbye(dsns: dict[Scope, str], spy: Spy, keys: Keys) -> None:
    async with (
        serving(made(dsns, spy, heartbeat=60.0)) as (server, client),
        following(client, keys.make("frontend")) as one,
        following(client, keys.make("frontend")) as two,
    ):
        for stream in (one, two):
            await stream.snapshot()
        threading.Thread(target=server.leave, args=("test",)).start()
        for stream in (one, two):
            event = await stream.next()
            assert (event.name, event.data) == ("end", {"code": "closing"})
            await stream.ended()
