"""What a worker announces about its types."""

from __future__ import annotations

from dataclasses import replace

import asyncpg

from penstock.contract.policies import Policy
from penstock.store import types


async def versions(db: asyncpg.Connection[asyncpg.Record]) -> dict[str, int]:
    rows = await db.fetch("select job_type, policy_version from penstock.types order by job_type")
    return {row["job_type"]: row["policy_version"] for row in rows}


async def test_what_is_announced_again_is_one_question_and_no_write(dsn: str) -> None:
    policies = [Policy(job_type=f"type_{number}") for number in range(5)]
    db = await asyncpg.connect(dsn)
    asked: list[str] = []
    try:
        await types.sync(db, policies)
        db.add_query_logger(lambda record: asked.append(record.query))
        await types.sync(db, policies)
    finally:
        await db.close()

    assert len(asked) == 1
    assert "insert" not in asked[0]


async def test_a_policy_that_differs_gets_a_new_version_and_its_neighbours_keep_theirs(dsn: str) -> None:
    policies = [Policy(job_type=f"type_{number}") for number in range(3)]
    db = await asyncpg.connect(dsn)
    try:
        await types.sync(db, policies)
        await types.sync(db, [policies[0], replace(policies[1], priority=7), policies[2], Policy(job_type="type_9")])

        assert await versions(db) == {"type_0": 1, "type_1": 2, "type_2": 1, "type_9": 1}
        assert await db.fetchval("select priority from penstock.types where job_type = 'type_1'") == 7
    finally:
        await db.close()
