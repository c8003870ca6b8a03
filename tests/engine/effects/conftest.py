"""A table of the application, and an outside world that remembers every effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest

from penstock import Absent, Found
from penstock.embedded import EmbeddedServer
from tests.engine.templates import template_with


class Outside:
    """A provider: performs, can be asked, and can be told to misbehave."""

    def __init__(self) -> None:
        self.performed: Counter[str] = Counter()
        self.asked: list[str] = []
        self.failing: Exception | None = None  # raised instead of performing
        self.reply_lost: Exception | None = None  # raised after performing
        self.deaf: Exception | None = None  # raised when asked

    async def perform(self, token: str) -> dict[str, str]:
        """Do it."""
        if self.failing is not None:
            raise self.failing
        self.performed[token] += 1
        if self.reply_lost is not None:
            raise self.reply_lost
        return {"id": f"m-{token[:6]}"}

    async def settle(self, token: str) -> Found | Absent:
        """Say whether it was done."""
        self.asked.append(token)
        if self.deaf is not None:
            raise self.deaf
        return Found({"id": f"m-{token[:6]}"}) if self.performed[token] else Absent()

    @property
    def total(self) -> int:
        """How often anything happened."""
        return sum(self.performed.values())


@pytest.fixture(scope="session")
def template(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> str:
    """The engine, and a table of the application."""
    return template_with("public.writes (job_id uuid, claim_seq bigint, note text)", shared_server, admin)


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """The application's own connection."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()
