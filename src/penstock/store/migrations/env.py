"""Alembic's entry point: runs one line of versions over the connection that `store.migrate` hands in."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import context

if TYPE_CHECKING:
    from sqlalchemy import Connection

VERSION_TABLE = "schema_version"


def run() -> None:
    """Run, or write, inside the transaction of the caller, who commits all lines or none."""
    attributes = context.config.attributes
    connection: Connection | None = attributes["connection"]
    schema: str = attributes["schema"]
    where: dict[str, Any] = {"version_table": VERSION_TABLE, "version_table_schema": schema}
    if connection is None:
        written = StringIO()
        context.configure(
            dialect_name="postgresql",
            dialect_opts={"paramstyle": "named"},  # another style would double every % of the scripts
            literal_binds=True,
            output_buffer=written,
            **where,
        )
        context.run_migrations()
        # Alembic writes it for a database that has never seen the line; the way down to `base` leaves the table behind.
        table = f"{schema}.{VERSION_TABLE} ("
        attributes["output"].write(
            written.getvalue().replace(f"CREATE TABLE {table}", f"CREATE TABLE IF NOT EXISTS {table}", 1)
        )
        return
    # Asked first: an owner of the schema need not have CREATE on the database.
    if connection.scalar(sa.text("select to_regnamespace(:name) is null"), {"name": schema}):
        connection.exec_driver_sql(f"create schema {schema}")
    context.configure(connection=connection, transactional_ddl=True, **where)
    context.run_migrations()


run()
