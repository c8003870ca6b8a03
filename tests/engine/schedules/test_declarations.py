"""What the code declares is what the database has; what operators switch stays switched."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock import JobType, Penstock
from penstock.contract.contract_types import complaint_rewrite
from penstock.contract.errors import NotFound, SettingsInvalid
from penstock.contract.profiles import PROFILES
from penstock.store import schedules as store
from tests.engine.schedules.conftest import Station

MORNING = datetime(2027, 5, 3, 8, 7, tzinfo=UTC)


def declared(station: Station, minutes: int = 15, *names: str, source: str = "app") -> Penstock:
    app = station.app()
    app.functions.source = source
    for name in names or ("sweep",):

        @app.function(name, every=timedelta(minutes=minutes))
        async def work() -> None: ...

    return app


@pytest.mark.contract("Q-44", "C-24")
@pytest.mark.parametrize("profile", PROFILES)
async def test_the_schedules_list_each_function_with_a_fixed_interval(station: Station, profile: str) -> None:
    app = Penstock(station.dsn, profile=profile)
    chosen = app.settings.active_profile()
    app.types.add(JobType(complaint_rewrite(chosen)))
    app.job_function("rewrite_batch_submitter", "complaint_rewrite", every=timedelta(minutes=chosen.submitter_minutes))
    app.job_function("rewrite_worker", "complaint_rewrite", every=timedelta(minutes=chosen.worker_minutes))
    await station.scheduler(app)

    rows = await station.owner.fetch("select function, every, cron from penstock.schedules")

    assert all(row["every"] is not None and row["cron"] is None for row in rows)
    found = {row["function"]: row["every"] for row in rows}
    cadence = {"base": 60, "dev": 120, "stage": 30, "prod": 60}[profile]
    assert found.pop("reaper")
    assert found.pop("retention")
    assert found == {
        "rewrite_batch_submitter": timedelta(minutes=15),
        "rewrite_worker": timedelta(minutes=cadence),
    }


async def test_a_changed_cadence_gets_a_new_due_time_and_an_unchanged_one_keeps_its_own(station: Station) -> None:
    await station.set_clock(MORNING)
    await station.scheduler(declared(station))
    await station.pass_time(minutes=30)  # due at 08:15, and nobody was there

    await station.scheduler(declared(station), "again")
    assert (await station.schedule("sweep"))["next_due_at"] == MORNING.replace(minute=15), "not forgotten"

    await station.scheduler(declared(station, 60), "later")
    row = await station.schedule("sweep")
    assert (row["every"], row["next_due_at"]) == (timedelta(hours=1), MORNING.replace(hour=9, minute=0))


async def test_a_schedule_that_is_gone_from_the_code_is_retired_and_comes_back(station: Station) -> None:
    await station.set_clock(MORNING)
    await station.scheduler(declared(station, 15, "sweep", "mop"))
    await station.scheduler(declared(station, 15, "other", source="another app"), "other")

    scheduler = await station.scheduler(declared(station, 15, "mop"), "new code")
    assert (await station.schedule("sweep"))["retired_at"] is not None
    assert (await station.schedule("mop"))["retired_at"] is None
    assert (await station.schedule("other"))["retired_at"] is None, "declared by another application"
    await station.pass_time(hours=1)
    assert await scheduler.turn() == 1

    await station.scheduler(declared(station, 15, "sweep", "mop"), "old code again")
    row = await station.schedule("sweep")
    assert row["retired_at"] is None
    assert row["next_due_at"] == MORNING.replace(hour=9, minute=15), "the time away is not made up for"


async def test_what_an_operator_turned_off_stays_off_through_a_deploy(station: Station) -> None:
    await station.set_clock(MORNING)
    scheduler = await station.scheduler(declared(station))
    await store.switch(station.owner, "sweep", enabled=False)

    again = await station.scheduler(declared(station, 30), "deployed")
    await station.pass_time(hours=1)
    assert (await scheduler.turn(), await again.turn()) == (0, 0)

    await store.switch(station.owner, "sweep", enabled=True)
    assert await again.turn() == 1


async def test_a_schedule_of_a_function_that_this_code_lacks_is_left_to_others(station: Station) -> None:
    await station.set_clock(MORNING)
    await station.scheduler(declared(station, 15, "elsewhere", source="another app"))
    here = await station.scheduler(declared(station, 15, "here"), "here")
    await station.pass_time(hours=1)

    assert await here.turn() == 1
    assert (await station.schedule("elsewhere"))["claim_seq"] == 0


async def test_names_are_taken_once_and_only_in_letters_that_fit(station: Station) -> None:
    app = declared(station)
    with pytest.raises(SettingsInvalid, match="function 'sweep' is declared twice"):
        app.function("sweep")(lambda: None)
    with pytest.raises(SettingsInvalid, match="function 'No Name'"):
        app.function("No Name")(lambda: None)
    app.schedule("daily", "report", every=3600)
    with pytest.raises(SettingsInvalid, match="schedule 'daily' is declared twice"):
        app.schedule("daily", "report", every=3600)
    with pytest.raises(SettingsInvalid, match="either an interval"):
        app.schedule("never", "report")
    app.schedule("sweep", "report", every=3600)
    with pytest.raises(SettingsInvalid, match="'sweep' has the name of a function"):
        app.functions.schedules()
    with pytest.raises(SettingsInvalid, match="either types whose jobs it runs, or code"):
        app.job_function("nothing")
    with pytest.raises(SettingsInvalid, match="max_jobs"):
        app.job_function("unbounded", "report", max_jobs=0)


async def test_an_unknown_schedule_is_not_found(station: Station) -> None:
    with pytest.raises(NotFound, match="no schedule nope"):
        await store.request(station.owner, "nope", "me")
