"""The doctor, called on the database of a test."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from penstock.store.checks import session
from penstock.store.doctor import Finding, examine

Doctor = Callable[..., Awaitable[list[Finding]]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence that the doctor waits for is short here."""
    monkeypatch.setattr(session, "PATIENCE", 0.5)


@pytest.fixture
def doctor(dsn: str) -> Doctor:
    """What the doctor finds; `doctor("check")` names one check only."""

    async def look(check: str | None = None, dsn: str = dsn, **options: Any) -> list[Finding]:
        found = await examine(dsn, **options)
        return [finding for finding in found if check in (None, finding.check)]

    return look


@pytest.fixture
def execute(superuser_dsn: str) -> Callable[..., Awaitable[None]]:
    """Statements of a superuser, who may break things."""

    async def run(*statements: str) -> None:
        connection = await asyncpg.connect(superuser_dsn)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    return run
