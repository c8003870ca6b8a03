"""The embedded server made ready: started, roles made, schema brought up to date.

Only the embedded server is treated so: it belongs to this user alone, and a
first command should work. A database behind a DSN is its owner's to migrate.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

from penstock.contract.errors import SchemaOutdated
from penstock.embedded import EmbeddedServer, ensure_started
from penstock.store import connect, roles, schema
from penstock.store.lines import lines, newest

if TYPE_CHECKING:
    from pathlib import Path


def ready_server(home: Path | None) -> EmbeddedServer:
    """The running embedded server with roles and schema, held until this process ends; blocks."""
    server = ensure_started(home)
    if asyncio.run(_is_ready(server)):
        return server
    with server.home.locked():  # two first commands at once: the second finds everything done
        if not asyncio.run(_is_ready(server)):
            _make_ready(server)
    return server


async def _is_ready(server: EmbeddedServer) -> bool:
    connection = await connect.connect(server.url())
    try:
        if await roles.missing_roles(connection):
            return False
        found = [await schema.version(connection, line) == newest(line) for line in lines()]
        return all(found)
    finally:
        await connection.close()


def _make_ready(server: EmbeddedServer) -> None:
    asyncio.run(roles.create_roles(server.superuser_url()))
    # In a process of its own: Alembic and SQLAlchemy would stay in a worker's memory for its whole life.
    up = "import sys; from penstock.store import migrate; migrate.upgrade(sys.argv[1], to=migrate.lines())"
    done = subprocess.run([sys.executable, "-c", up, server.url()], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SchemaOutdated(
            "the embedded server could not be brought to the newest schema; `penstock migrate up` says why"
        )
    asyncio.run(roles.apply_grants(server.url()))
