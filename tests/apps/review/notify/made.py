"""Reviews that are fetched and criticised already, put in by hand: what is left is to tell people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

import asyncpg

To = tuple[str, str, bool]  # channel, address, required


async def make_review(
    owner: asyncpg.Connection[Any], to: Iterable[To], *, changelist: str, version: int = 1, max_attempts: int = 5
) -> UUID:
    """A review with everything but its deliveries; its job waits in the stage notify."""
    review_id, job_id = uuid4(), uuid4()
    async with owner.transaction():
        await owner.execute(
            "insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, "
            "audited, staged, job_type, stage, idempotency_key, payload) "
            "values ($1, penstock.now(), penstock.now(), penstock.now(), true, 0, $2, true, true, "
            "'review_processing', 'notify', $3, $4::jsonb)",
            job_id, max_attempts, f"review_processing:{review_id}", json.dumps({"review_id": str(review_id)}),
        )  # fmt: skip
        await owner.execute(
            "insert into review.reviews (review_id, job_id, changelist_id, review_version) values ($1, $2, $3, $4)",
            review_id, job_id, changelist, version,
        )  # fmt: skip
        await owner.executemany(
            "insert into review.recipients (review_id, recipient, channel, address, required) "
            "values ($1, lower($3), $2, $3, $4)",
            [(review_id, channel, address, required) for channel, address, required in to],
        )
        await owner.execute(
            "insert into review.artifacts (review_id, revision, facts, diff, part_tokens, parts) "
            """values ($1, '4f1c2aa', '{"title": "Count the till"}', '', 1000, 0)""",
            review_id,
        )
    return review_id
