"""An application with scheduled work, for tests that run real commands."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from penstock import JobType, Penstock
from penstock.contract.contract_types import complaint_rewrite

app = Penstock()
rewrite = app.types.add(JobType(complaint_rewrite(app.settings.active_profile())))
app.job_function("rewrite_worker", rewrite, every=timedelta(minutes=app.settings.active_profile().worker_minutes))


@rewrite.stage("rewrite")
async def handle(args: dict[str, Any]) -> None:
    """Do nothing, or say that it has begun and wait until the file of the payload is there."""
    if "begun" in args:
        Path(args["begun"]).touch()  # noqa: ASYNC240 - what a test can see
    while "until" in args and not Path(args["until"]).exists():  # noqa: ASYNC110, ASYNC240 - what a test can make
        await asyncio.sleep(0.01)


@app.job("report")
async def report() -> None:
    """Nothing."""


@app.function("broken")
async def broken() -> None:
    """Fail."""
    raise RuntimeError("text that nobody may see")


@app.function("pulse", every=timedelta(seconds=1))
async def pulse() -> None:
    """Nothing, often."""


app.schedule("daily-report", report, {"kind": "daily"}, cron="30 3 * * *", timezone="Europe/Berlin")
