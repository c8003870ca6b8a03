"""The response of a stream at its edges: readers that do not read, databases that are away, keys that are gone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest

from penstock.store import api_keys
from penstock.store.api_keys import ROLES, Scope
from penstock.web.event_stream import EventStream
from penstock.web.keys import Caller
from penstock.web.streams import Stream, Streams
from tests.support.servers import PrivateServer
from tests.web.conftest import HOME, RECIPIENT, Keys, LateLogins, Spy, a_request, move
from tests.web.live import following, serving
from tests.web.test_streams import made

Owner = psycopg.Connection[dict[str, Any]]
SCOPE = {"type": "http", "method": "GET", "state": {"request_id": "r"}}


def caller(token: str, home_id: UUID = HOME) -> Caller:
    shown = api_keys.credential(token)
    assert shown is not None
    return Caller(Scope.FRONTEND, home_id, RECIPIENT, shown)


@pytest.fixture
async def streams(dsns: dict[Scope, str]) -> AsyncIterator[Streams]:
    """Streams without a server around them."""
    logins = LateLogins(dsns)
    await logins.open()
    found = Streams(
        lambda: logins.pool(Scope.FRONTEND), listen_dsn=dsns[Scope.FRONTEND], most=5, pause=0.0, patience=0.05
    )
    await found.start()
    yield found
    await found.stop()
    await logins.close()


async def never() -> Any:
    await asyncio.Event().wait()


async def test_a_reader_that_takes_nothing_is_dropped_and_its_place_is_free(
    streams: Streams, keys: Keys, owner: Owner
) -> None:
    a_request(owner)
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)
        if event["type"] == "http.response.body":
            await never()

    who = caller(keys.make("frontend"))
    response = EventStream(streams, Stream(streams, who, HOME, last_event=None), who.key_id)
    async with asyncio.timeout(10):
        await response(SCOPE, never, send)
    assert [event["type"] for event in sent] == ["http.response.start", "http.response.body"]
    assert sent[-1]["more_body"], "it was left in the middle, so the connection is closed"
    assert streams.count == 0


async def test_a_slow_reader_holds_nobody_up(streams: Streams, keys: Keys, owner: Owner) -> None:
    request, got = a_request(owner), asyncio.Event()

    async def stuck(event: Any) -> None:
        if event["type"] == "http.response.body":
            await never()

    async def quick(event: Any) -> None:
        if b'"queued"' in event.get("body", b""):
            got.set()

    streams.patience = 60.0
    tasks = []
    for send in (stuck, quick):
        who = caller(keys.make("frontend"))
        response = EventStream(streams, Stream(streams, who, HOME, last_event=None), who.key_id)
        tasks.append(asyncio.create_task(response(SCOPE, never, send)))
    move(owner, request, "queued")
    async with asyncio.timeout(10):
        await got.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert streams.count == 0, "also when the server gives up waiting"


async def test_a_key_revoked_between_the_door_and_the_first_row_gets_no_row(
    streams: Streams, keys: Keys, owner: Owner
) -> None:
    a_request(owner)
    token, sent = keys.make("frontend"), []
    keys.revoke(token)
    who = caller(token)

    async def send(event: Any) -> None:
        sent.append(event)

    await EventStream(streams, Stream(streams, who, HOME, last_event=None), who.key_id)(SCOPE, never, send)
    assert sent[0]["status"] == 401
    assert streams.count == 0


async def test_a_stream_outlives_its_database(server: PrivateServer, spy: Spy) -> None:
    dsns = {scope: server.role_dsn(role) for scope, role in ROLES.items()}
    with psycopg.connect(server.dsn, autocommit=True, row_factory=psycopg.rows.dict_row) as owner:
        token, request = Keys(owner).make("frontend"), a_request(owner)
    async with serving(made(dsns, spy, heartbeat=0.2)) as (_, client), following(client, token) as stream:
        await stream.snapshot()
        server.kill()
        await stream.comment()
        server.start()
        with psycopg.connect(server.dsn, autocommit=True, row_factory=psycopg.rows.dict_row) as owner:
            move(owner, request, "queued")
        assert (await stream.next()).told == (str(request), "queued")
        newcomer: httpx.Response = await client.get("/readyz")
        assert newcomer.status_code == 200
