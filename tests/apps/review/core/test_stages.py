"""The stages: each has its own budget, keeps what it has done, and begins where it was."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Failed, FailureClass
from penstock.apps.review import deliveries, repository
from penstock.apps.review.models import JOB_TYPE
from penstock.contract.dead_letters import Cause
from penstock.engine import dead_letters, replay
from tests.apps.review.core.conftest import MakeWorld, World, away, diff

BINARY = b"""diff --git a/logo.png b/logo.png
index 1111111..2222222 100644
Binary files a/logo.png and b/logo.png differ
"""
FILES = ("till.py", "shop.py", "stock.py", "tax.py")


async def in_parts(make_world: MakeWorld, **settings: Any) -> World:
    """A world whose changelist is cut into four parts, a file each."""
    world: World = await make_world(review_part_tokens=500, **settings)
    world.source.raw = diff(*FILES, words="y" * 1100)
    return world


# ---------------------------------------------------------------------------- budgets


@pytest.mark.contract("E-21", "E-24", "C-12")
async def test_four_failures_of_fetch_and_four_of_the_critic_leave_the_review_alive(world: World) -> None:
    world.source.failures.extend(away(times=4))
    world.critic.failures.extend(away(FailureClass.NETWORK_TIMEOUT, 4))
    made = await world.create()
    await world.succeed(made)
    assert (len(world.source.fetched), len(world.critic.asked), world.channel.sends) == (5, 5, 1)
    assert await world.stages(made.review.job_id) == {"fetch": 4, "llm": 4}
    assert (await world.harness.job(made.review.job_id))["attempt_count"] == 8, "the sum, for reporting"


@pytest.mark.contract("E-23", "E-25", "E-04")
async def test_the_fifth_failure_of_fetch_is_a_dead_letter_of_fetch(world: World) -> None:
    world.source.failures.extend(away(times=9))
    made = await world.create()
    await world.harness.work_until_idle()
    letter = await world.letter()
    assert (letter["stage"], letter["attempts"], letter["reason"]) == ("fetch", 5, "budget_exhausted")
    assert (len(world.source.fetched), world.critic.asked, world.channel.sends) == (5, [], 0)
    assert await world.stages(made.review.job_id) == {"fetch": 5}
    assert (await world.read(made)).status == "dead_letter"


@pytest.mark.contract("E-23", "E-24", "E-25", "E-26")
async def test_the_fifth_failure_of_the_critic_is_a_dead_letter_of_llm_alone(world: World) -> None:
    world.source.failures.extend(away(times=3))
    world.critic.failures.extend(away(times=9))
    made = await world.create()
    await world.harness.work_until_idle()
    letter = await world.letter()
    assert (letter["stage"], letter["attempts"], letter["error_class"]) == ("llm", 5, "UPSTREAM_5XX")
    assert await world.stages(made.review.job_id) == {"fetch": 3, "llm": 5}
    assert (len(world.source.fetched), len(world.critic.asked)) == (4, 5), "a retry of llm never fetches again"
    assert await world.count("review.artifacts") == 1


@pytest.mark.contract("E-24", "E-25", "E-26")
async def test_the_fifth_failure_of_notify_is_a_dead_letter_of_notify_alone(world: World) -> None:
    world.critic.failures.extend(away(times=2))
    world.channel.failures.extend(away(times=99))
    made = await world.create()
    await world.harness.work_until_idle()
    letter = await world.letter()
    assert (letter["stage"], letter["attempts"]) == ("notify", 5)
    assert await world.stages(made.review.job_id) == {"fetch": 0, "llm": 2, "notify": 5}
    assert (len(world.source.fetched), len(world.critic.asked)) == (1, 3)


# ------------------------------------------------------------------------------ replay


async def worked_through(world: World, dead_letter_id: UUID, *, full_restart: bool = False) -> UUID:
    """The steps of the operator up to the replay, whose job is returned."""
    db, who = await asyncpg.connect(world.operator_dsn), "olga"
    try:
        await dead_letters.triage(db, dead_letter_id, Cause.TRANSIENT, operator=who)
        await dead_letters.remediate(db, dead_letter_id, "the mail server is back", operator=who)
        await dead_letters.validate(db, dead_letter_id, ticket="OPS-1", replay_safe=True, operator=who)
        return await replay.replay(db, dead_letter_id, operator=who, full_restart=full_restart)
    finally:
        await db.close()


@pytest.mark.contract("E-41", "E-42", "E-26", "C-51")
async def test_a_replay_from_notify_tells_people_without_fetching_or_asking_again(world: World) -> None:
    world.channel.failures.extend(away(times=5))
    made = await world.create()
    await world.harness.work_until_idle()
    letter = await world.letter()
    calls = len(world.source.fetched), len(world.critic.asked)
    job_id = await worked_through(world, letter["dead_letter_id"])
    assert (await world.harness.job(job_id))["stage"] == "notify"
    await world.harness.work_until_idle()

    review = await world.read(made)
    assert (review.status, review.job_id, review.superseded_by_job_id) == ("succeeded", made.review.job_id, job_id)
    assert (len(world.source.fetched), len(world.critic.asked)) == calls
    assert len(world.channel.sent) == 1
    again = await world.create("another key")
    assert (again.created, again.review) == (False, review)


@pytest.mark.contract("C-51")
async def test_a_full_restart_goes_through_all_stages_and_pays_for_nothing_twice(make_world: MakeWorld) -> None:
    world = await in_parts(make_world)
    world.critic.failures.extend([*away(FailureClass.POLICY_REJECTED)])
    made = await world.create()
    await world.harness.work_until_idle()
    answered = await world.count("review.parts")
    job_id = await worked_through(world, (await world.letter())["dead_letter_id"], full_restart=True)
    assert (await world.harness.job(job_id))["stage"] == "fetch"
    await world.succeed(made)
    assert len(world.source.fetched) == 1
    assert len(world.critic.asked) == 1 + len(FILES)
    assert answered + 1 <= len(FILES)


async def test_a_repeated_delivery_of_an_old_review_goes_straight_to_notify(world: World) -> None:
    made = await world.create()
    await world.succeed(made)
    await world.clear_delivery()
    assert await deliveries.redeliver(world.owner, 10) == 1
    await world.harness.work_until_idle()
    jobs = await world.owner.fetch("select idempotency_key, status from penstock.jobs order by created_at")
    assert jobs[1]["idempotency_key"] == f"{JOB_TYPE}:{made.review.review_id}#redeliver-1"
    assert [job["status"] for job in jobs] == ["completed", "completed"]
    assert (len(world.source.fetched), len(world.critic.asked), world.channel.sends) == (1, 1, 2)
    assert len(world.channel.sent) == 1


# ------------------------------------------------------------------------------- fetch


@pytest.mark.contract("E-09")
@pytest.mark.parametrize(
    "error_class", [FailureClass.NOT_FOUND, FailureClass.AUTH_DENIED, FailureClass.PAYLOAD_REJECTED]
)
async def test_a_changelist_that_is_gone_forbidden_or_too_large_is_final_at_once(
    world: World, error_class: FailureClass
) -> None:
    world.source.failures.append(Failed(error_class))
    made = await world.create()
    await world.harness.work_until_idle()
    letter = await world.letter()
    assert (letter["stage"], letter["error_class"], letter["attempts"]) == ("fetch", error_class, 1)
    assert (await world.read(made)).status == "dead_letter"
    assert (len(world.source.fetched), world.critic.asked) == (1, [])


@pytest.mark.contract("E-06")
@pytest.mark.parametrize(
    ("raw", "settings"),
    [
        (b"", {}),
        (diff(words="z" * 10_000_000), {}),
        (diff(*FILES, words="y" * 1400), {"review_part_tokens": 500, "review_max_parts": 2}),
    ],
    ids=["nothing in it", "10 MB", "too many parts"],
)
async def test_a_changelist_that_cannot_be_reviewed_is_final_at_once(
    make_world: MakeWorld, raw: bytes, settings: dict[str, int]
) -> None:
    world: World = await make_world(**settings)
    world.source.raw = raw
    await world.create()
    await world.harness.work_until_idle()
    letter = await world.letter()
    assert (letter["stage"], letter["error_class"], letter["attempts"]) == ("fetch", "PAYLOAD_REJECTED", 1)
    assert (world.critic.asked, await world.count("review.artifacts")) == ([], 0)


async def test_a_change_of_binary_files_alone_asks_nobody_and_tells_everybody(world: World) -> None:
    world.source.raw = BINARY
    made = await world.create()
    review = await world.succeed(made)
    assert (world.critic.asked, review.findings) == ([], ())
    (_, payload) = next(iter(world.channel.sent.values()))
    assert b"logo.png" in payload


async def test_a_source_that_the_worker_does_not_have_is_a_fault_of_its_settings(world: World) -> None:
    await world.create()
    world.worker.sources.known = {}  # type: ignore[attr-defined]  # the fake's
    await world.harness.work_until_idle()
    assert (await world.letter())["error_class"] == "CONFIG_INVALID"


# ----------------------------------------------------------------------------- the critic


async def test_what_was_found_is_read_by_file_and_line(make_world: MakeWorld) -> None:
    world = await in_parts(make_world)
    review = await world.succeed(await world.create())
    assert review.findings is not None
    assert [(one.file, one.line, one.severity) for one in review.findings] == [
        (name, 2, "major") for name in sorted(FILES)
    ]
    assert await world.owner.fetchval("select array_agg(part order by part) from review.parts") == [1, 2, 3, 4]


async def test_an_answered_part_is_not_asked_about_again(make_world: MakeWorld) -> None:
    world = await in_parts(make_world)
    world.critic.failures.extend(away(times=1))
    made = await world.create()
    await world.harness.drain()
    kept = await world.count("review.parts")
    assert (kept, (await world.read(made)).findings) == (3, None), "three were under way beside the one that failed"
    await world.succeed(made)
    assert len(world.critic.asked) == len(FILES) + 1
    shown = [next(name for name in FILES if name in asked.text) for asked in world.critic.asked]
    assert sorted(shown) == sorted([*FILES, shown[0]])


@pytest.mark.contract("E-10")
async def test_a_block_of_the_moderation_is_final_and_no_other_part_is_asked(make_world: MakeWorld) -> None:
    world: World = await make_world(review_part_tokens=500)
    names = [f"{n}-{name}" for n in range(3) for name in FILES]
    world.source.raw = diff(*names, words="y" * 1100)
    world.critic.failures.extend(away(FailureClass.POLICY_REJECTED))
    await world.create()
    await world.harness.work_until_idle()
    letter = await world.letter()
    assert (letter["stage"], letter["error_class"], letter["attempts"]) == ("llm", "POLICY_REJECTED", 1)
    assert len(world.critic.asked) == 4 < len(names), "those under way, and no more"


async def test_of_several_failures_one_that_no_retry_helps_is_told(make_world: MakeWorld) -> None:
    world = await in_parts(make_world)
    world.critic.failures.extend([*away(), *away(FailureClass.AUTH_DENIED), *away(FailureClass.RATE_LIMITED)])
    await world.create()
    await world.harness.work_until_idle()
    assert (await world.letter())["error_class"] == "AUTH_DENIED"


async def test_a_changelist_is_cut_as_it_was_first_whatever_the_settings_say_later(make_world: MakeWorld) -> None:
    world = await in_parts(make_world)
    world.critic.failures.extend(away(times=1))
    made = await world.create()
    await world.harness.drain()
    artifact = await repository.load_artifact(world.owner, made.review.review_id)
    assert artifact is not None
    assert (artifact.part_tokens, artifact.parts) == (500, len(FILES))
    other = {"review_part_tokens": 100_000, "review_max_parts": 1}
    world.worker.app.settings = world.worker.app.settings.model_copy(update=other)
    await world.succeed(made)
    assert len(world.critic.asked) == len(FILES) + 1


async def test_what_is_stored_once_stays_as_it_is(world: World) -> None:
    made = await world.create()
    await world.succeed(made)
    review_id = made.review.review_id
    artifact = await repository.load_artifact(world.owner, review_id)
    assert artifact is not None
    assert not await repository.store_artifact(world.owner, review_id, artifact)
    assert not await repository.store_part(world.owner, review_id, 1, (), dropped=9)
    answered = await repository.load_parts(world.owner, review_id)
    assert (len(answered.findings), answered.dropped) == (1, 0)


# ------------------------------------------------------------------------------ privacy


@pytest.mark.contract("E-30", "C-52")
async def test_neither_code_nor_findings_nor_addresses_get_into_the_tables_of_the_engine_or_the_log(
    world: World,
) -> None:
    world.source.raw = diff(words="canary-of-the-code")
    world.critic.failures.extend(away(times=1))
    world.channel.failures.extend([Failed(FailureClass.UPSTREAM_5XX, "dev@example.org was busy"), *away(times=9)])
    await world.create()
    await world.harness.work_until_idle()
    assert (await world.letter())["stage"] == "notify"
    needles = ("canary-of-the-code", "Divides by zero", "dev@example.org", "Count the till", "till.py")
    tables = await world.owner.fetch(
        "select format('penstock.%I', tablename) from pg_tables where schemaname = 'penstock'"
    )
    for needle in needles:
        assert needle not in world.log.getvalue()
        for (table,) in tables:
            hit = f"select exists (select from {table} as t where t::text like $1)"
            assert not await world.owner.fetchval(hit, f"%{needle}%"), (table, needle)
