"""What the databases of a folder are cloned from, where its tests need tables of their own."""

from __future__ import annotations

from typing import Any

import psycopg

from penstock.embedded import EmbeddedServer
from tests.support import clusters


def template_with(table: str, server: EmbeddedServer, admin: psycopg.Connection[Any]) -> str:
    """Make a template of the engine and *table*; returns its name.

    A database whose tables are those of its template can be used again.
    """

    def furnish(dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as owner:
            owner.execute(f"create table {table}")

    name = f"{clusters.BARE_TEMPLATE}_{table.partition(' ')[0].rpartition('.')[2]}"
    return clusters.template_from(clusters.BARE_TEMPLATE, name, furnish, server, admin)
