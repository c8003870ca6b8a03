"""The second plain job of a type goes in by a shorter statement; nobody can tell the difference."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.contract.errors import EnqueueRefused, PayloadRejected
from penstock.contract.policies import Limits
from penstock.engine.pokes import Carried, Pokes
from penstock.store import jobs
from tests.engine.enqueue.conftest import ENRICHMENT_CHANNEL, Office

OWN = ("job_id", "created_at", "updated_at", "run_at", "payload", "lock_no")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each try of the short statement, whether it wrote the job; no enqueue carries a poke here."""
    tried: list[bool] = []
    monkeypatch.setattr(Pokes, "carry", lambda *_: Carried.NOTHING)
    original = jobs.put_plain

    async def put_plain(*arguments: Any) -> bool:
        tried.append(await original(*arguments))
        return tried[-1]

    monkeypatch.setattr(jobs, "put_plain", put_plain)
    return tried


def _rest(row: asyncpg.Record) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in OWN}


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"stages": ("one", "two"), "attempts": 3, "priority": 7},
        {"limits": Limits(key_running=1)},
        {"audit": "full"},
    ],
    ids=["plain", "staged", "limited", "audited"],
)
async def test_both_ways_write_the_same_job(office: Office, short: list[bool], policy: dict[str, Any]) -> None:
    async with Penstock(office.dsn) as app:
        app.type("both", **policy)
        first = await app.enqueue("both", {"n": 1})
        assert short == []

        second = await app.enqueue("both", {"n": 2})

        assert short == [True]
        rows = await office.job(first), await office.job(second)
        assert _rest(rows[0]) == _rest(rows[1])
        assert rows[1]["run_at"] == rows[1]["created_at"] == rows[1]["updated_at"]
        assert await office.payload(second) == {"n": 2}


@pytest.mark.contract("D-34", "C-28")
async def test_a_type_whose_channel_has_moved_is_poked_on_the_new_one(office: Office, short: list[bool]) -> None:
    await office.app.enqueue("noop", {"n": 1})
    await office.pokes()
    await office.owner.execute("update penstock.types set channel = $1 where job_type = 'noop'", ENRICHMENT_CHANNEL)

    await office.app.enqueue("noop", {"n": 2})

    assert short == [False]
    assert (ENRICHMENT_CHANNEL, '{"job_type": "noop"}') in await office.pokes()


async def test_a_type_that_was_given_to_one_role_is_refused_to_others_on_the_short_way_too(
    office: Office, short: list[bool]
) -> None:
    await office.app.enqueue("noop", {"n": 1})
    await office.owner.execute("update penstock.types set enqueue_role = 'pg_monitor' where job_type = 'noop'")

    with pytest.raises(EnqueueRefused, match="may not enqueue 'noop'"):
        await office.app.enqueue("noop", {"n": 2})

    assert short == [False]
    assert await office.count("noop") == 1


async def test_a_payload_above_what_the_database_knows_is_refused_on_the_short_way_too(
    office: Office, short: list[bool]
) -> None:
    await office.app.enqueue("noop", {"n": 1})
    await office.owner.execute("update penstock.types set max_payload_bytes = 1024 where job_type = 'noop'")

    with pytest.raises(PayloadRejected, match="max_payload_bytes"):
        await office.app.enqueue("noop", {"text": "x" * 2000})

    assert short == [False]
    assert await office.count("noop") == 1
