"""The checker of the campaign of homes sees what it is there to see."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from tests.apps.rewrite.conftest import World
from tests.crash import homes_history

SABOTAGE = {
    "hold text": "insert into penstock.alerts (kind, severity, subject) values ('x', 'info', '{\"a\": \"echo-12\"}')",
    "its job is": "update rewrite.rewrite_requests set status = 'failed', rewrite_completed_at = null, "
    "failure_code = 'rewrite_unavailable'",
    "foreign": "update rewrite.rewrite_outputs set job_id = gen_random_uuid()",
    "was completed 2 times": "insert into penstock.job_events (job_id, at, from_status, to_status, stage, attempt, "
    "claim_seq) select job_id, at, to_status, to_status, stage, attempt, claim_seq from penstock.job_events "
    "where to_status = 'completed'",
    "requests are there": "delete from rewrite.rewrite_outputs; delete from rewrite.rewrite_jobs; "
    "delete from rewrite.rewrite_requests",
}


async def found(world: World, log: Path) -> list[str]:
    sent = {sent.request_id: (sent.home.home_id, sent.canary) for sent in world.sent}
    return await homes_history.violations(world.owner, world.orchestrator, sent, [log])


@pytest.mark.parametrize(("told", "statement"), SABOTAGE.items(), ids=SABOTAGE)
async def test_every_kind_of_violation_is_told(
    world: World, tmp_path: Path, superuser_dsn: str, told: str, statement: str
) -> None:
    log = tmp_path / "workers.log"
    log.write_text('{"event": "fine"}\n')
    await world.send(await world.home())
    await world.through()
    assert await found(world, log) == []

    saboteur = await asyncpg.connect(superuser_dsn)
    await saboteur.execute("set session_replication_role = replica")
    await saboteur.execute(statement)
    await saboteur.close()
    assert [problem for problem in await found(world, log) if told in problem]


async def test_a_log_that_holds_text_and_an_output_of_another_message_are_told(world: World, tmp_path: Path) -> None:
    log = tmp_path / "workers.log"
    log.write_text("oops canary-0123\n")
    await world.send(await world.home())
    world.emulator.answers.function = lambda _: {
        "rewritten_text": "Could we please wash the dishes together in the evening? (echo-000000000000)",
        "output_locale": "en",
    }
    await world.through()

    problems = await found(world, log)
    assert any("workers.log hold text" in problem for problem in problems)
    assert any("was made of another message" in problem for problem in problems)
