"""Databases for tests: a migrated template, and a fresh copy of it for each test."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import uuid4

from penstock.store import connect

PREFIX: Final = "penstock_test_"
LOCK: Final = "select pg_advisory_lock(hashtext('penstock.test_template'))"


def dsn_of(admin_dsn: str, name: str) -> str:
    """*admin_dsn* for another database of the same server."""
    return urlunsplit(urlsplit(admin_dsn)._replace(path=f"/{quote(name)}"))


async def create(admin_dsn: str, name: str | None = None, *, template: str | None = None) -> str:
    """Make a database, as a copy of *template* if one is named, and return its name; one that exists is left alone."""
    name = name or f"{PREFIX}{uuid4().hex}"
    admin = await connect.connect(admin_dsn)
    try:
        await admin.execute(LOCK)  # CREATE DATABASE twice at once from one template fails
        if not await admin.fetchval("select true from pg_database where datname = $1", name):
            copy = f' template "{template}"' if template is not None else ""
            await admin.execute(f'create database "{name}"{copy}')
            await admin.execute(f'revoke temporary on database "{name}" from public')  # as the embedded server does
    finally:
        await admin.close()
    return name


async def drop(admin_dsn: str, name: str) -> None:
    """Drop a database that `create` made, also while something is connected to it."""
    if not name.startswith(PREFIX):
        raise ValueError(f"{name} is no test database; its name begins with {PREFIX}")
    admin = await connect.connect(admin_dsn)
    try:
        await admin.execute(f'drop database if exists "{name}" with (force)')
    finally:
        await admin.close()
