"""Alembic's entry point: runs the migrations over the connection that `store.migrate` hands in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic import context

if TYPE_CHECKING:
    from sqlalchemy import Connection

VERSION_TABLE = "schema_version"
VERSION_SCHEMA = "penstock"


def run() -> None:
    """Run in one transaction: an interrupted migration leaves the old version as it was."""
    connection: Connection | None = context.config.attributes.get("connection")
    if connection is None:
        context.configure(
            dialect_name="postgresql",
            literal_binds=True,
            version_table=VERSION_TABLE,
            version_table_schema=VERSION_SCHEMA,
            output_buffer=context.config.attributes.get("output"),
        )
    else:
        context.configure(
            connection=connection, version_table=VERSION_TABLE, version_table_schema=VERSION_SCHEMA
        )
    with context.begin_transaction():
        context.execute("create schema if not exists penstock")
        context.run_migrations()


run()
