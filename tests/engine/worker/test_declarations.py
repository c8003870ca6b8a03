"""A declaration that cannot work is refused before a job depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Penstock
from penstock.contract.errors import SettingsInvalid
from penstock.testing import Harness


async def send_mail(job: Any) -> None: ...


def test_a_decorator_without_parentheses_is_refused() -> None:
    app = Penstock("postgresql://nowhere/none")
    with pytest.raises(SettingsInvalid, match=r"got the function itself: write @app\.job\('send_mail'\)"):
        app.job(send_mail)  # type: ignore[arg-type]
    with pytest.raises(SettingsInvalid, match=r"write @app\.function\('send_mail'\)"):
        app.function(send_mail)  # type: ignore[arg-type]


def test_log_ids_are_a_list_and_no_letters() -> None:
    app = Penstock("postgresql://nowhere/none")
    with pytest.raises(
        SettingsInvalid, match=r"log_ids of type 'mail' is a list or a tuple, not str: write \[\"mail_id"
    ):
        app.type("mail", log_ids="mail_id")


def test_a_worker_refuses_a_type_with_a_stage_that_nobody_runs() -> None:
    app = Penstock("postgresql://nowhere/none")
    app.type("mail", stages=("write", "send")).stage("write")(send_mail)
    with pytest.raises(
        SettingsInvalid, match=r"'mail' has no handler for stage 'send'; declare one with \.stage\('send"
    ):
        app.worker()


async def test_a_test_may_enqueue_such_a_type_and_not_run_it(app: Penstock) -> None:
    app.type("mail", stages=("write", "send")).stage("write")(send_mail)
    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        with pytest.raises(SettingsInvalid, match="has no handler for stage 'send'"):
            await harness.drain()
        assert await harness.status(job_id) == "queued"
