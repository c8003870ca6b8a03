"""Erasing a home and renewing keys: what is gone, what goes on, and what an interruption leaves."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from penstock.apps.rewrite import erasure, homes, repository
from penstock.apps.rewrite.keyring import Keyring, new_key
from penstock.store import api_keys, batch_items
from penstock.store.roles import FRONTEND, OPERATOR, ORCHESTRATOR, WORKER
from tests.apps.rewrite.estate import Estate, Home, classified


async def batch(estate: Estate, batch_id: Any) -> asyncpg.Record:
    row: asyncpg.Record | None = await estate.owner.fetchrow(
        "select * from penstock.batches where batch_id = $1", batch_id
    )
    assert row is not None
    return row


async def collect(estate: Estate, batch_id: Any) -> None:
    await estate.owner.execute(
        "update penstock.batch_items set state = 'late', settled_at = now() where batch_id = $1", batch_id
    )
    await estate.owner.execute(
        "update penstock.batches set state = 'collected', collected_at = now() where batch_id = $1", batch_id
    )


async def due_files(estate: Estate) -> set[Any]:
    """Batches whose files a collector deletes now, also where files are kept otherwise."""
    rows = await batch_items.with_files(await estate.login(WORKER), "complaint_rewrite", delete_files=False, limit=100)
    return {row["batch_id"] for row in rows}


async def statuses(estate: Estate, home: Home) -> list[str]:
    rows = await estate.owner.fetch(
        "select status from rewrite.rewrite_requests where home_id = $1 order by created_at", home.home_id
    )
    return [row[0] for row in rows]


async def test_an_erased_home_cannot_be_read_and_stays_so(estate: Estate) -> None:
    home = await estate.home()
    unit = await estate.completed(home)
    key = await estate.key(home.home_id)
    async with estate.at(ORCHESTRATOR, None) as connection:
        await homes.put_preferences(connection, key, home.home_id, home.recipient, "warm", ["loud"])

    done = await erasure.erase_home(await estate.login(OPERATOR), home.home_id, who="ann")

    assert done == erasure.Erasure(home.home_id, False, 0, 0, 0, 0, 0)
    for role, create in ((WORKER, False), (ORCHESTRATOR, False), (ORCHESTRATOR, True)):
        async with estate.at(role, None) as connection:
            with pytest.raises(homes.HomeErased):
                await homes.home_key(connection, estate.keyring, home.home_id, create=create)
    row = await estate.owner.fetchrow(
        "select h.erased_at is not null, (select count(*) from rewrite.home_keys), "
        "(select count(*) from rewrite.preferences), (select count(*) from rewrite.rewrite_outputs) "
        "from rewrite.homes h"
    )
    assert row is not None
    assert tuple(row) == (True, 0, 0, 1)
    made = estate.keyring.new_home_key(home.home_id)[1]
    with pytest.raises(asyncpg.PostgresError, match="was erased"):
        await estate.owner.execute(
            "insert into rewrite.home_keys values ($1, $2, $3)", home.home_id, made.key_id, made.wrapped_key
        )
    late = repository.NewRequest(home.home_id, home.sender, home.recipient, unit.request, classified())
    with pytest.raises(asyncpg.PostgresError, match="was erased"):
        async with estate.at(ORCHESTRATOR, None) as connection:
            await repository.insert_request(connection, key, late)


async def test_an_erased_home_has_no_keys_of_the_http_api_left(estate: Estate) -> None:
    home, other = await estate.home(), await estate.home()
    operator = await estate.login(OPERATOR)
    tokens = {}
    for place in (home, other):
        token = api_keys.new_token()
        shown = api_keys.credential(token)
        assert shown is not None
        await api_keys.create(
            operator, shown, scope=api_keys.Scope.FRONTEND, name="app", who="ann",
            home_id=place.home_id, user_id=place.recipient, valid=None,
        )  # fmt: skip
        tokens[place.home_id] = shown

    await erasure.erase_home(operator, home.home_id, who="ann")

    frontend = await estate.login(FRONTEND)
    assert await api_keys.check(frontend, tokens[home.home_id]) is None
    assert await api_keys.check(frontend, tokens[other.home_id]) is not None


@pytest.mark.contract("C-62")
async def test_open_work_of_an_erased_home_is_canceled_and_nobody_elses(estate: Estate) -> None:
    home, other = await estate.home(), await estate.home()
    waiting, (running, _) = await estate.queued(home), await estate.claimed(home)
    await estate.queued(home)
    await estate.completed(home)
    theirs = await estate.queued(other)
    done = await erasure.erase_home(await estate.login(OPERATOR), home.home_id, who="ann")
    assert done is not None
    assert done.jobs_canceled == 3
    assert sorted(await statuses(estate, home)) == ["canceled", "canceled", "canceled", "completed"]
    assert (await estate.job_row(running))["status"] == "canceled"
    assert "by ann" in (await estate.job_row(waiting))["last_error_message"]
    assert (await estate.request_row(theirs))["status"] == "queued"


async def test_files_of_an_erased_home_go_and_a_shared_batch_runs_on(estate: Estate) -> None:
    home, other = await estate.home(), await estate.home()
    (mine, _), (shared, _), (theirs, _), (over, _), (foreign, _) = [
        await estate.claimed(whose) for whose in (home, home, other, home, other)
    ]
    alone = await estate.submit(mine, provider_batch_id="alone")
    mixed = await estate.submit(shared, theirs, provider_batch_id="mixed")
    ended = await estate.submit(over, provider_batch_id="ended")
    untouched = await estate.submit(foreign, provider_batch_id="foreign")
    await collect(estate, ended)
    assert await due_files(estate) == set()

    done = await erasure.erase_home(await estate.login(OPERATOR), home.home_id, who="ann")

    assert done is not None
    assert (done.jobs_canceled, done.batches, done.files_due_now) == (3, 3, 1)
    assert (done.batches_shared, done.batches_canceled) == (1, 1)
    assert (await batch(estate, alone))["cancel_asked_at"] is not None
    assert (await batch(estate, mixed))["cancel_asked_at"] is None
    assert (await batch(estate, untouched))["erase_asked_at"] is None
    assert (await estate.job_row(theirs))["status"] == "batch_submitted"
    assert await due_files(estate) == {ended}
    await collect(estate, mixed)
    assert await due_files(estate) == {ended, mixed}


async def test_an_erasure_that_was_interrupted_is_finished_by_the_next(estate: Estate) -> None:
    home = await estate.home()
    unit, _ = await estate.claimed(home)
    await estate.submit(unit)
    operator = await estate.login(OPERATOR)
    assert await operator.fetchval("select rewrite.forget_home($1)", home.home_id) is True
    done = await erasure.erase_home(operator, home.home_id, who="ann")
    assert done is not None
    assert (done.erased_before, done.jobs_canceled, done.batches_canceled) == (True, 1, 1)
    again = await erasure.erase_home(operator, home.home_id, who="ann")
    assert again is not None
    assert (again.jobs_canceled, again.erased_before) == (0, True)


async def test_only_an_erased_home_loses_its_work(estate: Estate) -> None:
    home = await estate.home()
    unit, _ = await estate.claimed(home)
    await estate.submit(unit)
    operator = await estate.login(OPERATOR)
    assert await operator.fetchval("select rewrite.cancel_open_jobs($1, 'x', 10)", home.home_id) == 0
    assert await operator.fetchval("select batches from rewrite.erase_files($1)", home.home_id) == 0
    assert await erasure.erase_home(operator, uuid4(), who="ann") is None


@pytest.mark.parametrize("role", [ORCHESTRATOR, WORKER])
async def test_nobody_but_an_operator_erases(estate: Estate, role: str) -> None:
    home = await estate.home()
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await erasure.erase_home(await estate.login(role), home.home_id, who="x")
    assert await estate.owner.fetchval("select count(*) from rewrite.home_keys") == 1


# ---------------------------------------------------------------------------- rotation


async def test_a_rotation_wraps_every_key_anew_and_touches_no_text(
    estate: Estate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "AT_ONCE", 2)
    old = new_key("k1")
    estate.keyring = Keyring.of(old)
    places = [await estate.home() for _ in range(5)]
    unit = await estate.completed(places[0], "calm words")
    before = await estate.owner.fetch("select rewrite_response from rewrite.rewrite_outputs")
    new = new_key("k2")
    operator, told = await estate.login(OPERATOR), []

    done = await erasure.rotate(operator, Keyring.of(f"{new},{old}"), told=lambda so_far: told.append(so_far.rewrapped))

    assert (done.rewrapped, done.complete, told) == (5, True, [2, 4, 5])
    assert await estate.owner.fetch("select rewrite_response from rewrite.rewrite_outputs") == before
    estate.keyring = Keyring.of(new)  # the old one is out
    async with estate.at(ORCHESTRATOR, None) as connection:
        key = await homes.home_key(connection, estate.keyring, places[0].home_id)
        stored = await repository.read_output(connection, key, places[0].home_id, unit.request_id)
    assert stored is not None
    assert stored.response.rewritten_text == "calm words"
    assert (await erasure.rotate(operator, estate.keyring)).rewrapped == 0


async def test_a_rotation_that_stopped_goes_on_where_it_was(estate: Estate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "AT_ONCE", 2)
    old = new_key("k1")
    estate.keyring = Keyring.of(old)
    for _ in range(5):
        await estate.home()
    both = Keyring.of(f"{new_key('k2')},{old}")
    operator = await estate.login(OPERATOR)

    def stop(so_far: erasure.Rotation) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await erasure.rotate(operator, both, told=stop)
    uses = {use.key_id: use.homes for use in await erasure.key_usage(operator, both)}
    assert uses == {"k2": 2, "k1": 3}
    assert (await erasure.rotate(operator, both)).rewrapped == 3


async def test_a_key_that_is_missing_stops_nobody_else(estate: Estate) -> None:
    keys = [new_key(f"k{n}") for n in range(3)]
    for key in keys[:2]:
        estate.keyring = Keyring.of(key)
        await estate.home()
    broken = await estate.home()
    await estate.owner.execute(
        "update rewrite.home_keys set wrapped_key = wrapped_key || '\\x00' where home_id = $1", broken.home_id
    )
    ring = Keyring.of(f"{keys[2]},{keys[1]}")
    done = await erasure.rotate(await estate.login(OPERATOR), ring)
    assert (done.rewrapped, dict(done.missing), done.broken) == (1, {"k0": 1}, [broken.home_id])
    assert not done.complete
    uses = {use.key_id: (use.in_settings, use.in_use, use.homes) for use in await erasure.key_usage(estate.owner, ring)}
    assert uses == {"k2": (True, True, 1), "k1": (True, False, 1), "k0": (False, False, 1)}


@pytest.mark.contract("C-68")
async def test_renewed_keys_and_erased_homes_leave_a_trace_of_the_login_that_did_it(estate: Estate) -> None:
    home, operator = await estate.home(), await estate.login(OPERATOR)
    was = await estate.owner.fetchval("select wrapped_key from rewrite.home_keys")
    for _ in range(2):  # the second of each changes nothing
        await operator.fetchval("select rewrite.rewrap($1, $2, 'k2', 'anew')", home.home_id, was)
    for _ in range(2):
        await operator.fetchval("select rewrite.forget_home($1)", home.home_id)
    rows = await estate.owner.fetch(
        "select action, db_user::text, actor, subject::text from penstock.operator_events order by event_id"
    )
    assert [tuple(row)[:3] for row in rows] == [("rewrap", OPERATOR, OPERATOR), ("erase_home", OPERATOR, OPERATOR)]
    about = {"home_id": str(home.home_id)}
    assert [json.loads(row["subject"]) for row in rows] == [about | {"key_id": "k2"}, about]


async def test_two_rotations_at_once_leave_every_home_readable(estate: Estate) -> None:
    """Whoever comes second finds the wrapping changed and leaves it: it never puts an older one back."""
    home = await estate.home()
    operator = await estate.login(OPERATOR)
    was = await estate.owner.fetchval("select wrapped_key from rewrite.home_keys")
    put = "select rewrite.rewrap($1, $2, $3, $4)"
    assert await operator.fetchval(put, home.home_id, was, "k2", b"first")
    assert not await operator.fetchval(put, home.home_id, was, "k3", b"second")
    assert await estate.owner.fetchval("select wrapped_key from rewrite.home_keys") == b"first"
