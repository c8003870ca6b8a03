"""Alembic's entry point: runs one line of versions over the connection that `store.migrate` hands in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import context

if TYPE_CHECKING:
    from sqlalchemy import Connection

VERSION_TABLE = "schema_version"


def run() -> None:
    """Run inside the transaction of the caller, who commits all lines or none; offline, write one transaction."""
    attributes = context.config.attributes
    connection: Connection | None = attributes["connection"]
    schema: str = attributes["schema"]
    where: dict[str, Any] = {"version_table": VERSION_TABLE, "version_table_schema": schema}
    if connection is None:
        context.configure(
            dialect_name="postgresql",
            dialect_opts={"paramstyle": "named"},  # another style would double every % of the scripts
            literal_binds=True,
            output_buffer=attributes["output"],
            **where,
        )
        with context.begin_transaction():
            context.execute(f"create schema if not exists {schema}")
            context.run_migrations()
        return
    # Asked first: an owner of the schema need not have CREATE on the database.
    if connection.scalar(sa.text("select to_regnamespace(:name) is null"), {"name": schema}):
        connection.exec_driver_sql(f"create schema {schema}")
    context.configure(connection=connection, transactional_ddl=True, **where)
    context.run_migrations()


run()
