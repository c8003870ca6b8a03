"""What the databases of a folder are cloned from, where its tests need tables of their own."""

from __future__ import annotations

import fcntl
from typing import Any

import psycopg

from penstock.embedded import EmbeddedServer
from tests.support import clusters


def template_with(table: str, server: EmbeddedServer, admin: psycopg.Connection[Any]) -> str:
    """Make a template of the engine and *table*, once for all workers of a run; returns its name.

    A database whose tables are those of its template can be used again.
    """
    name = f"{clusters.BARE_TEMPLATE}_{table.partition(' ')[0].rpartition('.')[2]}"
    with (server.path / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not admin.execute("select from pg_database where datname = %s", [name]).fetchall():
            admin.execute(f"create database {name} template {clusters.BARE_TEMPLATE} owner penstock")
            with psycopg.connect(server.url(database=name), autocommit=True) as owner:
                owner.execute(f"create table {table}")
            admin.execute(f"alter database {name} allow_connections false")
    return name
