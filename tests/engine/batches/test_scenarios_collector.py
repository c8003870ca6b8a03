"""The ten scenarios that a collector must survive, each end to end at every provider that has it."""

from __future__ import annotations

import pytest

from penstock.contract.calls import Route
from penstock.emulator import Emulator
from penstock.providers.port import Submission, Uploaded
from tests.engine.batches.conftest import TYPE
from tests.engine.batches.scenarios import (
    ANTHROPIC,
    CREATE,
    DONE,
    GEMINI,
    OPENAI,
    RESULTS,
    WAITING,
    World,
    at_gemini,
    at_openai,
    emulator,
    everywhere,
    make_app,
    started,
    where_files_are,
    world,
)  # fmt: skip
from tests.engine.owners import owner_of
from tests.support.emulator import BATCH_SECONDS

__all__ = ["emulator", "started", "world"]

EXPIRED = ("queued", 1, "BATCH_EXPIRED")


@everywhere
@pytest.mark.contract("C-37", "A-96")
async def test_scenario_1_completed_without_an_output_file_and_everything_in_the_error_file(world: World) -> None:
    world.emulator.faults.add("all_errors", status=400, code="invalid_value")
    await world.send()
    await world.come_back()

    assert await world.ends() == [("failed", 1, "SCHEMA_INVALID")] * 5
    assert await world.outputs() == set()
    if world.kind == OPENAI:
        assert world.emulator.batches[0].output_file_id is None


@everywhere
@pytest.mark.contract("A-97", "C-37")
async def test_scenario_2_the_counts_say_that_all_is_well_and_the_lines_do_not(world: World) -> None:
    world.emulator.faults.add("status_zero", items=[1, 3])
    world.emulator.faults.add("counts", total=5, completed=5, failed=0)
    await world.send()
    await world.come_back()

    failed = ("queued", 1, "UPSTREAM_5XX")
    assert await world.ends() == [DONE, failed, DONE, failed, DONE]
    world.emulator.faults.clear()
    await world.until_over()
    assert await world.outputs() == {0, 1, 2, 3, 4}


@everywhere
@pytest.mark.contract("C-37")
async def test_scenario_3_expired_with_results_that_are_paid_for(world: World) -> None:
    world.emulator.faults.add("expire", done=2)
    world.emulator.faults.add("item_error", items=[1], status=500)
    world.emulator.faults.add("counts", total=5, completed=1, failed=0)
    await world.send()
    await world.come_back()

    if world.kind == GEMINI:  # an expired batch has no results at all there
        assert await world.ends() == [EXPIRED] * 5
    else:
        assert await world.ends() == [DONE, ("queued", 1, "UPSTREAM_5XX"), EXPIRED, EXPIRED, EXPIRED]
    spent = await world.owner.fetchval("select coalesce(sum(calls), 0) from penstock.spend")
    assert spent == len(await world.outputs())
    world.emulator.faults.clear()
    await world.until_over()
    assert await world.outputs() == {0, 1, 2, 3, 4}


@everywhere
@pytest.mark.contract("C-37")
async def test_scenario_4_cancelled_with_both_files_and_items_in_neither(world: World) -> None:
    world.emulator.faults.add("cancelled", done=2)
    world.emulator.faults.add("item_error", items=[0], status=400)
    await world.send()
    await world.come_back()

    assert await world.ends() == [("failed", 1, "SCHEMA_INVALID"), DONE, EXPIRED, EXPIRED, EXPIRED]
    if world.kind != ANTHROPIC:  # which lists every item
        assert "batch_ended_early" in await world.alerts()
    world.emulator.faults.clear()
    await world.until_over()
    assert await world.outputs() == {1, 2, 3, 4}


@everywhere
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.contract("A-95")
async def test_scenario_5_a_download_that_breaks_off_writes_nothing_and_is_made_again(
    world: World, framing: str
) -> None:
    world.emulator.faults.add("truncate", **RESULTS, after=700, framing=framing, times=2)
    await world.send()
    for _ in range(2):
        await world.come_back(minutes=15)
        assert await world.ends() == [WAITING] * 5
        assert await world.outputs() == set()

    await world.come_back(minutes=30)

    assert await world.ends() == [DONE] * 5
    assert await world.outputs() == {0, 1, 2, 3, 4}


@at_openai
@pytest.mark.parametrize("empty", ["empty_error_file_id", "empty_output_file_id"])
async def test_scenario_6_an_empty_file_id_is_no_file(world: World, empty: str) -> None:
    world.emulator.faults.add(empty)
    if empty == "empty_output_file_id":
        world.emulator.faults.add("all_errors", status=400)
    await world.send()
    await world.come_back()

    assert {end[0] for end in await world.ends()} == {"completed" if empty == "empty_error_file_id" else "failed"}


@everywhere
@pytest.mark.parametrize("lost", ["drop_after", "server_error", "broken_json"])
@pytest.mark.contract("C-36", "C-66")
async def test_scenario_7_a_create_whose_answer_was_lost_is_found_and_not_repeated(world: World, lost: str) -> None:
    act = {} if lost == "drop_after" else {"act": True}
    world.emulator.faults.add(lost, **CREATE, times=1, **act)
    await world.fill()
    await world.submit()
    assert await world.owner.fetchval("select state from penstock.batches") == "uncertain"

    await world.pass_time(seconds=BATCH_SECONDS)
    await world.submit()
    await world.collect()

    assert await world.ends() == [DONE] * 5
    assert await world.outputs() == {0, 1, 2, 3, 4}
    assert world.asked(**CREATE) == 1


@where_files_are
@pytest.mark.contract("C-36")
async def test_scenario_7_of_two_batches_of_one_submission_one_is_kept_and_one_cancelled(world: World) -> None:
    world.emulator.faults.add("drop_after", **CREATE, times=1)
    await world.fill()
    await world.submit()
    row = await world.owner.fetchrow("select * from penstock.batches")
    assert row is not None
    adapter = world.app.adapters.get(Route(row["provider"], row["model"], row["adapter"], row["base_url"]))
    again = Submission(row["batch_id"], row["model"], [], row["created_at"])
    await adapter.create(again, Uploaded(world.emulator.files[0].id))  # type: ignore[attr-defined]  # it does batches

    await world.submit()

    assert len(world.emulator.batches) == 2
    assert len(world.live()) == 1
    assert "batch_found_twice" in await world.alerts()
    await world.come_back()
    assert await world.ends() == [DONE] * 5
    assert await world.outputs() == {0, 1, 2, 3, 4}


@at_openai
@pytest.mark.contract("C-37")
async def test_scenario_8_one_bad_line_fails_that_item_and_sends_the_others_back(world: World) -> None:
    world.emulator.faults.add("fail", line=2, code="invalid_value", times=1)
    await world.send()
    await world.come_back()

    back = ("queued", 0, "BATCH_FAILED")
    assert await world.ends() == [back, ("failed", 1, "SCHEMA_INVALID"), back, back, back]
    await world.until_over()
    assert await world.outputs() == {0, 2, 3, 4}


@at_openai
@pytest.mark.contract("C-37")
async def test_scenario_8_a_token_limit_is_nobodys_failure_however_often(world: World) -> None:
    world.emulator.faults.add("token_limit", times=4)
    await world.fill()
    for _ in range(4):
        await world.submit()
        await world.come_back()
        assert await world.ends() == [("queued", 0, "RATE_LIMITED")] * 5
        await world.pass_time(minutes=30)

    await world.until_over()
    assert {end[:2] for end in await world.ends()} == {("completed", 0)}


@at_gemini
@pytest.mark.contract("C-37")
async def test_scenario_8_a_refusal_without_a_reason_goes_back_uncharged_and_ends(world: World) -> None:
    world.emulator.faults.add("fail")
    await world.send(1)
    await world.come_back()
    assert await world.ends() == [("queued", 0, "BATCH_REFUSED")]

    await world.until_over()

    assert await world.ends() == [("failed", 3, "UPSTREAM_5XX")]
    assert len(world.emulator.batches) == 6  # three that count for nobody, and three attempts


@everywhere
async def test_scenario_9_polls_that_find_nothing_for_a_while_change_nothing(world: World) -> None:
    world.emulator.faults.add("not_found", polls=2)
    await world.send()
    for _ in range(2):
        await world.come_back(minutes=2)
        assert await world.ends() == [WAITING] * 5

    await world.come_back(minutes=30)

    assert await world.ends() == [DONE] * 5


@everywhere
@pytest.mark.contract("C-05")
async def test_scenario_9_a_batch_that_vanishes_is_told_of_and_given_up_at_its_deadline(world: World) -> None:
    world.emulator.faults.add("vanish", times=1)
    await world.send()
    for _ in range(3):
        await world.come_back(minutes=20)
    assert await world.ends() == [WAITING] * 5
    assert "batch_missing" in await world.alerts()

    await world.come_back(hours=50)

    assert await world.ends() == [EXPIRED] * 5
    await world.until_over()
    assert await world.outputs() == {0, 1, 2, 3, 4}


@everywhere
async def test_scenario_9_the_key_of_another_project_loses_nothing(dsn: str, kind: str) -> None:
    with Emulator(finish_after=BATCH_SECONDS, frozen=True, keys={"ours": "a", "theirs": "b"}) as provider:
        both = [make_app(dsn, kind, provider, key=key) for key in ("ours", "theirs")]
        async with both[0] as ours, both[1] as theirs:
            await ours.sync_types()
            world = World(ours, dsn, owner_of(ours), provider, kind)
            await world.send()
            world.app = theirs
            for _ in range(3):
                await world.come_back(hours=1)
            assert await world.ends() == [WAITING] * 5
            assert "batch_missing" in await world.alerts()

            world.app = ours
            await world.come_back(hours=1)

            assert await world.ends() == [DONE] * 5


@everywhere
async def test_scenario_9_a_key_that_opens_nothing_loses_nothing(world: World) -> None:
    await world.send()
    wrong = world.emulator.faults.add("unauthorized", method="GET")
    await world.come_back(hours=60)
    assert await world.ends() == [WAITING] * 5
    assert "batch_poll_failed" in await world.alerts()

    world.emulator.faults.rules.remove(wrong)
    await world.come_back(hours=1)

    assert await world.ends() == [DONE] * 5


@everywhere
@pytest.mark.contract("C-05", "C-37")
async def test_scenario_10_a_batch_stuck_past_its_deadline_is_cancelled_and_gives_what_it_has(world: World) -> None:
    world.emulator.faults.add("stuck", state="finalizing", times=1)
    world.emulator.faults.add("cancel_keeps", done=2, times=1)
    await world.send()
    await world.come_back(hours=20)
    assert await world.ends() == [WAITING] * 5

    await world.come_back(hours=30)
    assert "batch_deadline_passed" in await world.alerts()
    assert world.live() == []
    await world.come_back(minutes=5)

    assert await world.ends() == [DONE, DONE, EXPIRED, EXPIRED, EXPIRED]
    await world.until_over()
    assert await world.outputs() == {0, 1, 2, 3, 4}


@everywhere
@pytest.mark.contract("C-05", "C-35", "C-37")
async def test_scenario_10_results_of_a_batch_that_was_given_up_lose_to_the_next(world: World) -> None:
    world.emulator.faults.add("stuck", state="finalizing", times=1)
    world.emulator.faults.add("cancel_keeps", done=5, times=1)
    await world.send()
    (stuck,) = world.emulator.batches
    stuck.cancel_after = 10_000_000
    await world.come_back(hours=50)  # cancelled, and does not end
    await world.come_back(hours=2)
    assert await world.ends() == [EXPIRED] * 5
    await world.until_over()
    assert await world.outputs() == {0, 1, 2, 3, 4}

    stuck.cancel_after = 0  # it ends after all, with all that was asked of it
    for _ in range(3):
        await world.come_back(hours=1)

    assert await world.outputs() == {0, 1, 2, 3, 4}
    assert set(await world.items()) == {"retried", "completed"}


@everywhere
@pytest.mark.contract("C-35")
async def test_scenario_10_a_result_whose_job_waits_for_it_no_more_is_late(world: World) -> None:
    await world.send()
    await world.owner.execute("select penstock.cancel($1, 'somebody', 'not needed')", world.ids[2])
    await world.come_back()

    assert [end[0] for end in await world.ends()] == ["completed", "completed", "canceled", "completed", "completed"]
    assert await world.items() == ["completed", "completed", "late", "completed", "completed"]
    assert await world.outputs() == {0, 1, 3, 4}
    assert TYPE in {row["job_type"] for row in await world.owner.fetch("select job_type from penstock.spend")}
