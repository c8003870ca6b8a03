"""The one PostgreSQL server of a run, and a fresh database for whoever needs one."""

from __future__ import annotations

import asyncio
import itertools
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import asyncpg

from penstock.embedded import EmbeddedServer
from penstock.embedded.cluster import ROLE

if TYPE_CHECKING:
    from bench.contestant import Contestant

# Durable as in production; the rest keeps a checkpoint from falling into one contestant's turn.
# Commit timestamps are kept because pickup latency is measured from the commit itself.
SETTINGS: Final = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "max_connections": "200",
    "track_commit_timestamp": "on",
}
HARNESS: Final = "penstock-bench"


class Server:
    """A server of its own: made for the run, deleted after it."""

    def __init__(self, home: Path) -> None:
        self._postgres = EmbeddedServer(home / "server", settings=SETTINGS)
        self._numbers = itertools.count(1)
        self._templates: set[str] = set()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._remove)
        await asyncio.to_thread(self._postgres.start)
        self.admin = await self.connect("postgres")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.admin.close()
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        if self._postgres.path.exists():
            self._postgres.stop()
            shutil.rmtree(self._postgres.path)

    @property
    def pid(self) -> int:
        """The postmaster, parent of every backend."""
        pid = self._postgres.status().pid
        if pid is None:
            raise RuntimeError("the server of this run has ended; see its log in build/bench/server")
        return pid

    @property
    def version(self) -> str:
        """The version of PostgreSQL, such as 18.4."""
        return self._postgres.binaries.version

    def dsn(self, database: str) -> str:
        """How a contestant connects: as the owner of its database, who is no superuser."""
        return self._postgres.url(database=database)

    def superuser_dsn(self, database: str) -> str:
        """How the harness connects, and how history is loaded past the triggers."""
        return self._postgres.superuser_url(database)

    async def connect(self, database: str) -> asyncpg.Connection[Any]:
        """A connection of the harness, told apart from those of the contestants by its name."""
        return await asyncpg.connect(self.superuser_dsn(database), server_settings={"application_name": HARNESS})

    @asynccontextmanager
    async def database(self, contestant: Contestant) -> AsyncIterator[str]:
        """A database with the contestant's schema and nothing else; dropped at the end."""
        template = await self._template(contestant)
        name = f"{template}_{next(self._numbers)}"
        await self._create(name, f'template "{template}"')
        try:
            yield name
        finally:
            await self._drop(name)

    async def _template(self, contestant: Contestant) -> str:
        """The contestant's schema is made once and cloned, so that no run pays for it."""
        name = "t_" + re.sub(r"\W", "_", contestant.schema_of or contestant.name)
        if name not in self._templates:
            await self._drop(name)  # what a set-up that failed left behind
            await self._create(name)
            await contestant.setup(self.dsn(name))
            await self._disconnect_all(name)
            self._templates.add(name)
        return name

    async def _create(self, name: str, options: str = "") -> None:
        await self.admin.execute(f'create database "{name}" owner {ROLE} {options}')
        await self.admin.execute(f'revoke temporary on database "{name}" from public')

    async def _drop(self, name: str) -> None:
        await self.admin.execute(f'drop database if exists "{name}" with (force)')

    async def _disconnect_all(self, database: str) -> None:
        await self.admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1",
            database,
        )

    async def settle(self, database: str) -> None:
        """Fresh statistics and no dirty pages: the same start line for everybody."""
        connection = await self.connect(database)
        await connection.execute("analyze")
        await connection.close()
        await self.admin.execute("checkpoint")

    async def backends(self, database: str) -> list[int]:
        """Process ids of the server's side of a contestant's connections."""
        rows = await self.admin.fetch(
            "select pid from pg_stat_activity where datname = $1 and application_name <> $2"
            " and backend_type = 'client backend'",
            database,
            HARNESS,
        )
        return [row["pid"] for row in rows]

    async def transactions(self, database: str) -> int:
        """Transactions of a database since its statistics began."""
        value = await self.admin.fetchval(
            "select xact_commit + xact_rollback from pg_stat_database where datname = $1", database
        )
        return int(value)


class Guest(Server):
    """The same server as another process sees it: used, neither started nor removed."""

    async def __aenter__(self) -> Self:
        self.admin = await self.connect("postgres")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.admin.close()
