"""What a provider keeps: deleted once it is read, tried again until it is gone, and on erasure in any case."""

from __future__ import annotations

import pytest

from penstock import Failed, FailureClass
from penstock.engine.batches.files import erase_batches
from penstock.providers.port import Phase
from tests.engine.batches.conftest import MakeLane
from tests.engine.batches.returning import Home, make_home
from tests.support.fake_provider import refusal


@pytest.fixture
async def home(make_lane: MakeLane) -> Home:
    return await make_home(make_lane)


def keep_files(home: Home) -> None:
    home.app.settings = home.app.settings.model_copy(update={"batch_delete_files": False})


async def test_input_and_results_are_deleted_once_every_item_has_its_end(home: Home) -> None:
    await home.sent(2)

    await home.collected()

    (state,) = home.provider.discarded
    assert (state.provider_batch_id, state.output_file_id, state.error_file_id) == ("pb_1", "out_1", "err_1")
    assert (await home.batch())["files_deleted_at"] is not None
    await home.sent(1)
    await home.collected()
    assert len(home.provider.discarded) == 2


async def test_files_stay_while_a_batch_runs_and_where_the_setting_says_so(home: Home) -> None:
    keep_files(home)
    await home.sent(1)
    home.provider.phase = Phase.RUNNING
    await home.collected()
    home.provider.phase = Phase.COMPLETED
    await home.pass_time(minutes=1)
    await home.collected()

    assert home.provider.discarded == []
    assert (await home.batch())["files_deleted_at"] is None
    assert (await home.collect()).skipped


async def test_files_that_cannot_be_deleted_are_tried_again(home: Home) -> None:
    await home.sent(1)
    home.provider.discard_raises = Failed(FailureClass.UPSTREAM_5XX)
    await home.collected()
    assert (await home.batch())["state"] == "collected"
    assert (await home.batch())["files_deleted_at"] is None

    home.provider.discard_raises = None
    assert (await home.collect()).skipped  # not at once
    await home.pass_time(hours=1)
    await home.collected()

    assert (await home.batch())["files_deleted_at"] is not None


async def test_a_refusal_to_delete_is_told_and_a_file_that_is_gone_is_deleted(home: Home) -> None:
    await home.sent(1)
    home.provider.discard_raises = Failed(FailureClass.AUTH_DENIED)
    await home.collected()
    assert await home.alert_kinds() == ["batch_files_stayed"]

    home.provider.discard_raises = Failed(FailureClass.NOT_FOUND)
    await home.pass_time(hours=1)
    await home.collected()
    assert (await home.batch())["files_deleted_at"] is not None


async def test_erasure_deletes_the_files_of_a_home_whatever_the_setting_says(home: Home) -> None:
    keep_files(home)
    mine = await home.sent(1)
    await home.sent(1)
    await home.collected()
    assert home.provider.discarded == []

    erased = await erase_batches(home.app, mine)

    assert (erased.deleted, erased.waiting) == (1, 0)
    assert [state.provider_batch_id for state in home.provider.discarded] == ["pb_1"]
    assert [row["files_deleted_at"] is not None for row in await home.batches()] == [True, False]


async def test_erasure_of_a_batch_that_still_runs_is_done_when_it_is_collected(home: Home) -> None:
    keep_files(home)
    mine, _ = await home.sent(2)
    home.provider.phase = Phase.RUNNING
    await home.collected()

    erased = await erase_batches(home.app, [mine])
    await home.owner.execute("select penstock.cancel($1, 'eraser', 'home erased')", mine)
    assert (erased.deleted, erased.waiting, home.provider.discarded) == (0, 1, [])

    home.provider.phase = Phase.COMPLETED
    await home.pass_time(minutes=1)
    await home.collected()

    assert len(home.provider.discarded) == 1
    assert await home.states() == ["late", "completed"]


async def test_the_input_of_a_submission_that_was_given_up_is_deleted_by_its_name(home: Home) -> None:
    home.provider.refuse_create.append(refusal(FailureClass.RATE_LIMITED, 429))
    await home.fill(1)
    await home.submitted()
    assert (await home.collect()).skipped  # an upload in doubt may still come to its end
    await home.pass_time(hours=1)

    home.provider.refuse_discard = Failed(FailureClass.UPSTREAM_5XX)
    await home.collected()
    assert (await home.batch())["files_deleted_at"] is None
    home.provider.refuse_discard = None
    assert (await home.collect()).skipped  # tried again, but not at once
    await home.pass_time(hours=1)
    await home.collected()

    batch = await home.batch()
    assert (batch["state"], batch["files_deleted_at"] is not None) == ("abandoned", True)
    assert home.provider.discarded_inputs == [batch["batch_id"]]
    assert home.provider.discarded == []


async def test_the_input_of_a_submission_that_was_given_up_stays_where_the_setting_says_so(home: Home) -> None:
    keep_files(home)
    home.provider.refuse_create.append(refusal(FailureClass.RATE_LIMITED, 429))
    mine = await home.fill(1)
    await home.submitted()
    await home.pass_time(hours=1)

    assert (await home.collect()).skipped
    assert (await erase_batches(home.app, mine)).deleted == 1
    assert len(home.provider.discarded_inputs) == 1


async def test_an_input_whose_id_nobody_has_saved_is_deleted_by_its_name(home: Home) -> None:
    home.provider.lose_create.append(Failed(FailureClass.NETWORK_TIMEOUT))
    home.provider.tells_input = False
    await home.fill(1)
    await home.submitted()

    await home.collected()

    assert (await home.batch())["input_file_id"] is None
    assert home.provider.discarded_inputs == [(await home.batch())["batch_id"]]
