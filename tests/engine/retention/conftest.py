"""An application with types of different memories, and a clock to wind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from penstock import Audit, Failed, FailureClass, Job, Penstock
from penstock.engine import retention
from penstock.settings import Settings, load_settings
from penstock.testing import Harness

WEEK = timedelta(days=7)


@dataclass
class Archive:
    """The application, and retention on it."""

    h: Harness
    settings: Settings
    faults: list[BaseException] = field(default_factory=list)
    performed: list[str] = field(default_factory=list)

    async def prune(self) -> dict[str, int]:
        """What was removed, without the zeros and without the traces of the harness's own worker."""
        removed = await retention.prune(self.h.app.pool, self.settings)
        return {what: count for what, count in removed.items() if count and what not in ("workers", "runs")}

    async def finished(self, job_type: str = "brief", count: int = 1, **options: Any) -> list[UUID]:
        ids = [await self.h.enqueue(job_type, {"n": n}, **options) for n in range(count)]
        await self.h.drain()
        return ids

    async def failed(self, job_type: str = "brief", **options: Any) -> UUID:
        self.faults.append(Failed(FailureClass.NOT_FOUND))
        return (await self.finished(job_type, **options))[0]

    async def ids(self) -> set[UUID]:
        return {row[0] for row in await self.h.app.pool.fetch("select job_id from penstock.jobs")}

    async def count(self, table: str, where: str = "true") -> int:
        found: int = await self.h.app.pool.fetchval(f"select count(*) from penstock.{table} where {where}")
        return found


@pytest.fixture
async def archive(dsn: str) -> AsyncIterator[Archive]:
    app = Penstock(dsn)
    settings = load_settings(dsn=dsn, keep_jobs_days=5, keep_audit_days=60, keep_runs_days=30, keep_alerts_days=20)
    async with Harness(app) as h:
        made = Archive(h, settings)
        await h.app.pool.execute(
            "update penstock.retention set keep = case what when 'audit' then interval '60 days' "
            "when 'runs' then interval '30 days' else interval '20 days' end"
        )

        async def work(job: Job) -> None:
            if made.faults:
                raise made.faults.pop(0)

        async def mail(job: Job, args: dict[str, Any]) -> None:
            async def send(token: str) -> str:
                made.performed.append(token)
                return "sent"

            await job.effect("mail", perform=send, key=args.get("to"))

        app.job("brief", keep_finished=WEEK, keep_keys=timedelta(days=30))(work)
        app.job("audited", keep_finished=WEEK, keep_keys=timedelta(days=30), audit=Audit.FULL)(work)
        app.job("lasting", keep_finished=None, audit=Audit.FULL)(work)
        app.job("remembered", keep_finished=WEEK, keep_keys=None)(work)
        app.job("mailer", keep_finished=WEEK, keep_keys=timedelta(days=30))(mail)
        two = app.type("two", stages=("a", "b"), keep_finished=WEEK)
        two.stage("a")(work)
        two.stage("b")(work)
        await app.sync_types()
        yield made
