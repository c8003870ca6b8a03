"""Reports over all homes: sums that name nobody."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from penstock.apps.rewrite import reports, repository
from penstock.store import claims
from penstock.store.roles import OPERATOR, WORKER
from tests.apps.rewrite.estate import HELD_BY, Estate, routed

SPEND = "select penstock.add_spend($1, 'openai', 'gpt-5-mini', $2, $3, $4, 100, 50, $5, null)"
IDS = {"home_id", "user_id", "sender_user_id", "recipient_user_id", "rewrite_request_id", "job_id"}


def only(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.contract("A-81")
async def test_cost_is_told_by_pair_of_languages(estate: Estate) -> None:
    for job_type, source, target, execution, cost in [
        ("complaint_rewrite", "en", "es", "batch", 10), ("complaint_rewrite", "en", "es", "batch", 20),
        ("complaint_rewrite", "en", "en", "async", 5), ("other", "en", "es", "batch", 900),
    ]:  # fmt: skip
        await estate.owner.execute(SPEND, job_type, source, target, execution, cost)
    operator = await estate.login(OPERATOR)
    rows = await reports.cost(operator)
    names = ("source_locale", "target_locale", "lane", "execution", "calls", "cost_micros")
    assert only(rows, *names) == [
        ("en", "en", "same_language", "async", 1, 5),
        ("en", "es", "cross_language", "batch", 2, 30),
    ]
    today: date = await estate.owner.fetchval("select (penstock.now() at time zone 'UTC')::date")
    assert len(await reports.cost(operator, today, today)) == 2
    assert await reports.cost(operator, today + timedelta(days=1)) == []
    assert await reports.cost(operator, None, today - timedelta(days=1)) == []


@pytest.mark.contract("A-81")
async def test_failures_are_told_by_pair_of_languages(estate: Estate) -> None:
    for home in (await estate.home(), await estate.home()):
        await estate.completed(home)
        for target in ("es", "fr"):
            unit, _ = await estate.claimed(home, target=target)
            await estate.fail(unit)
        await estate.queued(home)
        await estate.claim()
    rows = await reports.failures(await estate.login(OPERATOR))
    names = ("source_locale", "target_locale", "requests", "completed", "failed", "waiting", "failure_rate")
    assert only(rows, *names) == [("en", "es", 6, 2, 2, 2, 0.5), ("en", "fr", 2, 0, 2, 0, 1.0)]
    later = datetime.now(UTC) + timedelta(days=1)
    assert await reports.failures(await estate.login(OPERATOR), later) == []


@pytest.mark.contract("A-81")
async def test_a_version_that_refuses_more_shows_as_a_regression(estate: Estate) -> None:
    home = await estate.home()
    await estate.completed(home)
    for code in ("LEXICON_BLOCKED", "LEXICON_BLOCKED", "LOCALE_MISMATCH"):
        unit, _ = await estate.claimed(home, decision=routed(prompt_version="v2"))
        async with estate.at(WORKER, None) as connection:
            await repository.note_refusal(
                connection, home.home_id, unit.job, attempt=1, code=code, eval_version="e2", lexicon_version="x2"
            )
        await estate.fail(unit, code)
    rows = await reports.regressions(await estate.login(OPERATOR))
    names = ("prompt_version", "eval_version", "lexicon_version", "passed", "refused", "refusal_rate", "codes")
    assert only(rows, *names) == [
        ("v1", "e1", "x1", 1, 0, 0.0, {}),
        ("v2", "e2", "x2", 0, 3, 1.0, {"LEXICON_BLOCKED": 2, "LOCALE_MISMATCH": 1}),
    ]


@pytest.mark.contract("A-81")
async def test_an_incident_is_found_by_its_code(estate: Estate) -> None:
    for home in (await estate.home(), await estate.home()):
        unit, claim = await estate.claimed(home)
        back = claims.Requeue(claim, timedelta(0), charged=True, code="RATE_LIMITED")
        await claims.requeue(await estate.login(WORKER), HELD_BY, [back])
        await estate.claim()
        await estate.fail(unit, "AUTH_DENIED")
    operator = await estate.login(OPERATOR)
    rows = await reports.incidents(operator, "AUTH_DENIED")
    assert only(rows, "code", "provider", "model", "execution_mode", "jobs", "failed") == [
        ("AUTH_DENIED", "openai", "gpt-5-mini", "batch", 2, 2)
    ]
    every = await reports.incidents(operator)
    assert {(row["code"], row["jobs"], row["failed"]) for row in every} == {
        ("AUTH_DENIED", 2, 2),
        ("RATE_LIMITED", 2, 0),
    }
    assert await reports.incidents(operator, "SCHEMA_INVALID") == []


@pytest.mark.contract("A-08")
async def test_no_report_over_all_homes_names_anybody(estate: Estate) -> None:
    rows = await estate.owner.fetch(
        "select p.proname, coalesce(p.proargnames, '{}') as names from pg_proc p "
        "where pronamespace = 'rewrite'::regnamespace and prosecdef and proretset "
        "and has_function_privilege('penstock_operator', oid, 'execute')"
    )
    found = {row["proname"]: IDS & set(row["names"]) for row in rows}
    assert found == {
        "cost_by_pair": set(), "failures_by_pair": set(), "eval_regressions": set(), "incidents": set(),
        "key_usage": set(), "erase_files": set(), "keys_to_rewrap": {"home_id"},
    }  # fmt: skip
