"""What is asked of reviews stays fast in tables that are full: EXPLAIN on thousands of rows."""

from __future__ import annotations

import re

import asyncpg

from penstock.apps.review.statements import sql

FILL = """
insert into review.reviews (review_id, job_id, changelist_id, review_version)
select md5('r' || n)::uuid, md5('j' || n)::uuid, 'shop:' || n / 3, 1 + n % 3 from generate_series(1, 6000) as n;
insert into review.recipients select md5('r' || n)::uuid, 'dev@example.org', 'smtp', 'dev@example.org', true
  from generate_series(1, 6000) as n;
insert into review.creation_keys select 'key ' || n, md5('r' || n)::uuid from generate_series(1, 6000) as n;
insert into review.parts (review_id, part, findings) select md5('r' || n)::uuid, 1, '[]'
  from generate_series(1, 6000) as n;
analyze review.reviews, review.recipients, review.creation_keys, review.parts;
"""
ASKED = {
    "reviews/find_by_key": "'key 17'",
    "reviews/find_versions": "'shop:17'",
    "reviews/read": "md5('r17')::uuid",
    "reviews/list": "null, 20",
    "reviews/load_recipients": "md5('r17')::uuid",
    "reviews/read_deliveries": "md5('r17')::uuid",
    "parts/load": "md5('r17')::uuid",
}


async def test_no_question_about_a_review_reads_a_whole_table(dsn: str) -> None:
    owner = await asyncpg.connect(dsn)
    await owner.execute(FILL)
    for name, values in ASKED.items():
        given = values.split(", ")
        text = re.sub(r"\$(\d+)", lambda place: given[int(place[1]) - 1], sql(name))  # noqa: B023 - used at once
        plan = "\n".join(row[0] for row in await owner.fetch(f"explain {text}"))
        walked = re.findall(r"Seq Scan on (\w+)", plan)
        assert [table for table in walked if table not in ("deliveries", "artifacts")] == [], (name, plan)
    await owner.close()


async def test_the_standing_of_a_review_is_found_by_indexes(dsn: str) -> None:
    owner = await asyncpg.connect(dsn)
    await owner.execute(FILL)
    body = await owner.fetchval("select prosrc from pg_proc where proname = 'standing'")
    text = body.replace("p_review_id", "md5('r17')::uuid")
    plan = "\n".join(row[0] for row in await owner.fetch(f"explain {text}"))
    assert "reviews_pkey" in plan
    assert set(re.findall(r"Seq Scan on (\w+)", plan)) <= {"deliveries", "jobs", "stages"}, plan
    await owner.close()
