"""The job types of the campaign, and the outside world they touch.

The world is a file that every process appends whole lines to. It remembers
every effect that was ever performed, also those whose process died the
moment after, and it can be asked, as a provider with a lookup could.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from penstock import Absent, Failed, FailureClass, Found, Job, Penstock, Schedule
from penstock.contract.policies import Audit

LEASE = timedelta(seconds=1)
ATTEMPTS = 500  # a kill uses an attempt; no job of the campaign may die of kills alone


class World:
    """The outside: effects by token."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def perform(self, token: str) -> str:
        """Do it: once this line is written, it has happened."""
        with self.path.open("ab", buffering=0) as file:
            file.write(f"{token}\n".encode())
        return token

    def happened(self, token: str) -> bool:
        """The lookup of a provider."""
        return token in self.path.read_text().split() if self.path.exists() else False

    def effects(self) -> list[str]:
        """Every effect, in order."""
        return self.path.read_text().split() if self.path.exists() else []


def build(dsn: str, world_path: str) -> Penstock:
    """The application of the campaign."""
    app = Penstock(dsn, poll_seconds=1, grace_seconds=5, flush_ms=1)
    world = World(Path(world_path))
    common: dict[str, Any] = {"lease": LEASE, "attempts": ATTEMPTS, "backoff": Schedule([0]), "audit": Audit.FULL}

    @app.job("plain", **common)
    async def plain(job: Job, args: dict[str, Any]) -> None:
        """Nothing but the record."""

    @app.job("mail", **common)
    async def mail(job: Job, args: dict[str, Any]) -> None:
        """One effect outside."""
        await _mail(job, world)

    @app.job("write", **common)
    async def write(job: Job, args: dict[str, Any]) -> None:
        """One write inside, with the completion."""
        async with job.transaction() as tx:
            await tx.execute("insert into public.writes (job_id, claim_seq) values ($1, $2)", job.job_id, job.claim_seq)

    @app.job("flaky", **common)
    async def flaky(job: Job, args: dict[str, Any]) -> None:
        """Fails now and then, and for good when told so."""
        if args.get("fatal"):
            raise Failed(FailureClass.NOT_FOUND)
        if job.attempt % 3:
            raise Failed(FailureClass.UPSTREAM_5XX)

    staged = app.type("staged", stages=("fetch", "notify"), **common)

    @staged.stage("fetch")
    async def fetch(job: Job, args: dict[str, Any]) -> dict[str, int]:
        """A stage whose result the next one needs."""
        return {"seen": args["n"]}

    @staged.stage("notify")
    async def notify(job: Job, args: dict[str, Any]) -> None:
        """An effect in the last stage."""
        assert job.result("fetch") == {"seen": args["n"]}
        await _mail(job, world)

    return app


async def _mail(job: Job, world: World) -> None:
    async def perform(token: str) -> str:
        return world.perform(token)

    async def settle(token: str) -> Found | Absent:
        return Found(token) if world.happened(token) else Absent()

    await job.effect("mail", perform=perform, settle=settle)


def pid() -> int:
    """The process, for those who want to know whom to kill."""
    return os.getpid()
