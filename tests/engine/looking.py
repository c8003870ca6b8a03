"""What tests of the engine look at."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    import asyncpg

    from penstock.testing import Harness


async def waits(harness: Harness, job_id: UUID) -> timedelta:
    """How long the job's last move made it wait, exactly: both times come from one statement."""
    row = await harness.job(job_id)
    assert row["status"] == "queued"
    span: timedelta = row["run_at"] - row["updated_at"]
    return span


async def letter(harness: Harness, job_id: UUID) -> asyncpg.Record:
    """The job's dead letter."""
    async with harness.connection() as db:
        [row] = await db.fetch("select * from penstock.dead_letters where job_id = $1", job_id)
    found: asyncpg.Record = row
    return found


async def stages(harness: Harness, job_id: UUID) -> dict[str, int]:
    """Failed attempts of each stage of the job."""
    async with harness.connection() as db:
        rows = await db.fetch("select stage, attempts from penstock.job_stages where job_id = $1", job_id)
    return {row["stage"]: row["attempts"] for row in rows}


async def alerts(harness: Harness) -> list[tuple[str, str]]:
    """(kind, severity) of every alert."""
    async with harness.connection() as db:
        rows = await db.fetch("select kind, severity from penstock.alerts order by alert_id")
    return [(row["kind"], row["severity"]) for row in rows]


async def until(db: Any, condition: str, *arguments: Any, seconds: float = 30) -> None:
    """Wait until a query answers true; the server itself takes the pauses."""
    async with asyncio.timeout(seconds):
        while not await db.fetchval(f"select {condition}", *arguments):
            await db.execute("select pg_sleep(0.01)")


class Answer:
    """An HTTP response as an SDK's error carries it."""

    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.status_code = status
        self.headers = headers or {}


class HttpError(Exception):
    """What an SDK raises for a bad status."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.response = Answer(status, {name.replace("_", "-"): value for name, value in headers.items()})


async def nothing(job: Any, args: Any) -> None:
    """Done."""
