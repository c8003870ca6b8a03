"""What is said when there is no connection: what was tried, what to do next, never the password."""

import asyncpg
import pytest

from penstock.contract.errors import DatabaseUnavailable
from penstock.store import connect


@pytest.mark.parametrize(
    "dsn",
    [
        "this is no dsn",
        "http://u:hunter2@127.0.0.1/db",
        "postgresql://u:hunter2@127.0.0.1:port/db",
        "postgresql://u:hunter2@127.0.0.1:1/db?sslmode=perhaps",
        "postgresql://u:hunter2@[::1/db",
        "u:hunter2@127.0.0.1:5999/app",
        "postgresql://u:5432/hunter2@127.0.0.1:1/db?sslmode=perhaps",
        "postgresql:u:hunter2@127.0.0.1",
        "host=127.0.0.1 user=u password=hunter2",
    ],
)
async def test_a_dsn_that_nobody_can_read_is_told_as_that(dsn: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="is not a usable DSN; write it as postgresql://user") as raised:
        await connect.connect(dsn)
    assert "hunter2" not in str(raised.value)


async def test_a_connection_that_was_lost_is_not_blamed_on_its_dsn(dsn: str) -> None:
    connection = await connect.connect(dsn)
    await connection.close()
    with pytest.raises(asyncpg.InterfaceError) as lost:
        await connection.execute("select 1")
    assert "does not answer (InterfaceError); is it up?" in str(connect.unavailable(lost.value, dsn))
