"""The ground every other test stands on."""

import asyncpg


async def test_each_test_has_a_database_of_its_own(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        assert await connection.fetchval("select current_user") == "penstock"
        assert not await connection.fetchval("select to_regclass('mine')")
        await connection.execute("create table mine ()")
    finally:
        await connection.close()


async def test_what_one_test_made_the_next_does_not_see(dsn: str) -> None:
    await test_each_test_has_a_database_of_its_own(dsn)
