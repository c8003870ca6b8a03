"""Test your handlers on the real engine and a real PostgreSQL.

    async with Harness(app, dsn) as h:
        job_id = await h.enqueue("thumbnail", {"picture_id": 42})
        await h.drain()
        assert await h.status(job_id) == "completed"

Nothing here is a fake: the harness claims, runs and records with the parts
that a worker process has, in your test's own event loop, and winds the
database's clock instead of sleeping.
"""

from __future__ import annotations

from penstock.contract.crash import CrashPoint
from penstock.testing.clock import Clock
from penstock.testing.harness import Harness
from penstock.testing.inline import InlineWorker

__all__ = ["Clock", "CrashPoint", "Harness", "InlineWorker"]
