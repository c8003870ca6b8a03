"""What an application's own code has opened is given back when the application closes."""

from __future__ import annotations

import asyncio

from penstock import Penstock
from penstock.engine.own_connections import OwnPool, PerLoop


async def test_what_was_opened_last_is_given_back_first(dsn: str) -> None:
    given_back: list[str] = []

    async def first() -> None:
        given_back.append("first")

    async def second() -> None:
        assert app.pool is not None, "the engine's own connections are there until the last of them is done"
        given_back.append("second")

    async with Penstock(dsn) as app:
        app.on_close(first)
        app.on_close(second)

    assert given_back == ["second", "first"]


async def test_each_event_loop_has_connections_of_its_own(dsn: str) -> None:
    app = Penstock(dsn)
    pools = PerLoop(lambda: OwnPool(app, size=1, name="own"))

    async def backend() -> tuple[OwnPool, int]:
        async with pools.here.connection() as connection:
            found: int = await connection.fetchval("select pg_backend_pid()")
        opened = pools.forget()
        assert opened is not None
        await opened.close()
        return opened, found

    here = pools.here
    assert pools.here is here
    elsewhere, _ = await asyncio.to_thread(lambda: asyncio.run(backend()))
    assert elsewhere is not here
    assert (await backend())[0] is here
    assert pools.forget() is None
