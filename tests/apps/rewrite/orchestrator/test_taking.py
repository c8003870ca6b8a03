"""A message is taken: what is decided, what is frozen, and that nobody has been asked for a rewrite by then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock.apps.rewrite import IdempotencyConflict, homes
from penstock.apps.rewrite.hydration import Unit
from penstock.apps.rewrite.models import JOB_TYPE, ClassifierResultV1, Confidence
from penstock.store.roles import FRONTEND
from tests.apps.rewrite.conftest import MakeWorld, World
from tests.support.squatters import squatter, unhindered


@pytest.mark.contract("L-14", "L-16", "A-70", "L-22", "C-38")
async def test_one_message_is_one_request_with_both_snapshots_of_that_very_moment(world: World) -> None:
    home = await world.home("de-AT", "es-MX")
    sent = await world.send(home, "de")

    (row,) = await world.owner.fetch(
        "select r.*, s.created_at as frozen_at, p.created_at as wished_at, p.user_id as wisher, m.user_id as target "
        "from rewrite.rewrite_requests r join rewrite.recipient_snapshots s using (recipient_snapshot_id) "
        "join rewrite.recipient_snapshot_members m using (recipient_snapshot_id) "
        "join rewrite.recipient_preference_snapshots p using (recipient_preference_snapshot_id)"
    )
    assert row["rewrite_request_id"] == sent.request_id
    assert row["created_at"] == row["frozen_at"] == row["wished_at"]
    assert row["target"] == row["wisher"] == row["recipient_user_id"] == home.recipient
    assert (row["source_locale"], row["target_locale"]) == ("de", "es")
    assert (row["source_locale_raw"], row["target_locale_raw"]) == ("de-AT", "es-MX")


@pytest.mark.contract("A-03", "L-05", "Q-83")
async def test_the_call_returns_before_any_provider_is_asked(world: World) -> None:
    sent = await world.send(await world.home())

    assert await world.ends(sent) == [("queued", "queued", None)]
    assert world.asked() == 0


@pytest.mark.contract("L-19")
async def test_the_classifier_is_asked_once_and_all_it_says_is_kept(world: World) -> None:
    sent = await world.send(await world.home(), "fr")
    await world.through()

    assert len(world.classifier.asked) == 1
    kept = json.loads((await world.request(sent))["classifier_result"])
    assert kept == {
        "classifier_version": "spy-1", "detected_language": "fr", "language_confidence": "high",
        "topics": ["kitchen"], "intent": "complaint", "rewrite_strength": "full_reframe", "safety_flags": ["none_seen"],
    }  # fmt: skip
    assert ClassifierResultV1.model_validate(kept).intent == "complaint"


SAYS = [  # detected, confidence, sender's profile, recipient's locale → source, target
    ("de", "high", "en-US", "en", "de", "en"),
    ("de", "medium", "en-US", "de-CH", "de", "de"),
    ("de", "low", "fr-CA", "fr", "fr", "fr"),
    ("de", "low", None, "es", "en", "es"),
    (None, "low", "x!", None, "en", "en"),
    ("de", "low", "und", "unknown", "en", "en"),
]


@pytest.mark.contract("L-20", "L-23", "L-24", "L-25", "L-26")
@pytest.mark.parametrize(("detected", "confidence", "sender", "recipient", "source", "target"), SAYS)
async def test_locales_follow_the_rules_and_the_classifier_only_advises(
    world: World,
    detected: str | None,
    confidence: str,
    sender: str | None,
    recipient: str | None,
    source: str,
    target: str,
) -> None:
    class Says:
        async def classify(self, text: str) -> ClassifierResultV1:
            del text
            return ClassifierResultV1(
                classifier_version="says-1", detected_language=detected, language_confidence=Confidence(confidence)
            )

    world.orchestrator.classifier = Says()
    sent = await world.send(await world.home(sender, recipient))

    row = await world.request(sent)
    assert (row["source_locale"], row["target_locale"]) == (source, target)


@pytest.mark.contract("L-02", "L-03", "L-28", "L-07")
@pytest.mark.parametrize("surface", ["weekly_harmony", "direct_message", "other"])
@pytest.mark.parametrize(("spoken", "read"), [("en", "en"), ("es", "es"), ("en", "es"), ("es", "en")])
async def test_the_lane_is_the_equality_of_the_two_languages_and_nothing_else(
    world: World, surface: str, spoken: str, read: str
) -> None:
    sent = await world.send(await world.home("pt-BR", read), spoken, surface=surface)

    lane = "same_language" if spoken == read else "cross_language"
    assert (await world.request(sent))["lane"] == (await world.job(sent))["lane"] == lane


async def test_a_classifier_that_fails_costs_nothing_but_its_advice(world: World) -> None:
    world.classifier.error = RuntimeError("no models here")
    sent = await world.send(await world.home("nl", "nl"), "es")

    row = await world.request(sent)
    assert (row["source_locale"], row["rewrite_strength"], row["status"]) == ("nl", "light_touch", "queued")


@pytest.mark.contract("L-75")
async def test_the_same_input_is_decided_the_same_way_every_time(world: World) -> None:
    home = await world.home("en-US", "es")
    sents = [await world.send(home) for _ in range(3)]

    decided = {
        (row["lane"], row["source_locale"], row["target_locale"], row["routing_decision"], row["max_attempts"])
        for row in [await world.job(sent) for sent in sents]
    }
    assert len(decided) == 1


@pytest.mark.contract("A-69")
async def test_the_time_of_the_reveal_is_set_by_the_orchestrator_and_stays(make_world: MakeWorld) -> None:
    world: World = await make_world(rewrite_reveal_delay_seconds=3600)
    home = await world.home()
    usual, own, soon = await world.send(home), await world.send(home, reveal_delay=timedelta(days=2)), timedelta(0)
    at_once = await world.send(home, reveal_delay=soon)
    await world.through()

    waits = [(row := await world.request(s))["sender_reveal_at"] - row["created_at"] for s in (usual, own, at_once)]
    assert waits == [timedelta(hours=1), timedelta(days=2), timedelta(0)]
    assert {row[1] for row in await world.ends()} == {"completed"}


async def test_without_a_delay_no_time_of_a_reveal_is_made_up(world: World) -> None:
    sent = await world.send(await world.home())
    assert (await world.request(sent))["sender_reveal_at"] is None


# ---------------------------------------------------------------- once and only once


@pytest.mark.contract("A-37", "Q-40", "C-32")
async def test_a_second_enqueue_of_a_unit_returns_the_job_that_it_has(world: World) -> None:
    sent = await world.send(await world.home())
    job_id = (await world.job(sent))["job_id"]
    unit = Unit(rewrite_request_id=sent.request_id, recipient_user_id=sent.home.recipient, home_id=sent.home.home_id)

    again = await world.orchestrator.app.enqueue(JOB_TYPE, unit, key=unit.key)

    assert again == job_id
    assert await world.owner.fetchval("select count(*) from penstock.jobs") == 1


async def test_the_same_key_with_the_same_message_is_the_same_request(world: World) -> None:
    home = await world.home()
    first = await world.submit(home, "Close the door, please!", idempotency_key="k-1")
    again = await world.submit(home, "Close the door, please!", idempotency_key="k-1")
    other = await world.submit(home, "Close the door, please!", idempotency_key="k-2")

    assert (first.repeated, again.repeated) == (False, True)
    assert first.rewrite_request_id == again.rewrite_request_id != other.rewrite_request_id
    assert len(world.classifier.asked) == 2


@pytest.mark.parametrize(
    "over", [{"text": "Another message"}, {"surface": "other"}, {"reveal_delay": timedelta(hours=1)}]
)
async def test_the_same_key_with_another_message_is_a_conflict_that_repeats_none_of_it(
    world: World, over: dict[str, Any]
) -> None:
    home = await world.home()
    await world.submit(home, "Close the door, please!", idempotency_key="k-1")

    with pytest.raises(IdempotencyConflict) as caught:
        await world.submit(home, **{"text": "Close the door, please!", "idempotency_key": "k-1", **over})

    assert caught.value.code == "idempotency_conflict"
    assert "door" not in str(caught.value)


async def test_two_calls_with_one_key_at_once_make_one_request(world: World) -> None:
    home = await world.home()
    done = await asyncio.gather(*(world.submit(home, "Close the door!", idempotency_key="k") for _ in range(5)))

    assert len({one.rewrite_request_id for one in done}) == 1
    assert sorted(one.repeated for one in done) == [False, True, True, True, True]
    assert await world.owner.fetchval("select count(*) from rewrite.rewrite_requests") == 1


@pytest.mark.contract("C-68")
async def test_a_login_that_knows_sender_and_key_cannot_hold_the_call_up(
    world: World, role_dsn: Callable[[str], str]
) -> None:
    home = await world.home()
    name = "concat_ws(':', 'rewrite_requests', $1::uuid, $2::uuid, $3::text)"
    async with squatter(role_dsn(FRONTEND), world.owner) as frontend:
        await frontend.take(f"hashtextextended({name}, 0)", home.home_id, home.sender, "k")
        done = await unhindered(world.submit(home, "Close the door!", idempotency_key="k"))
        assert (done.accepted, done.repeated) == (True, False)

        await frontend.take_as_known(f"penstock.lock_key({name})", home.home_id, home.sender, "k2")
        control = await frontend.hinders(world.submit(home, "Close the door!", idempotency_key="k2"))
        assert control.accepted


async def test_the_key_of_one_sender_is_not_the_key_of_another(world: World) -> None:
    home = await world.home()
    mine = await world.submit(home, "Close the door!", idempotency_key="k")
    theirs = await world.submit(
        home, "Close the door!", idempotency_key="k", sender_user_id=home.recipient, recipient_user_ids=[home.sender]
    )
    assert mine.rewrite_request_id != theirs.rewrite_request_id


# --------------------------------------------------------------------- what is frozen


@pytest.mark.contract("A-09", "A-71", "A-29")
async def test_who_moves_in_or_out_later_changes_no_target(world: World) -> None:
    home = await world.home("en", "en")
    sent = await world.send(home)
    late = await world.join(home)
    async with world.orchestrator.in_home(home.home_id) as connection:
        await homes.remove_member(connection, home.home_id, home.recipient)
    await world.through()

    output = await world.output(sent)
    assert output is not None
    assert output.recipient_user_ids == (home.recipient,)
    assert late not in output.recipient_user_ids


@pytest.mark.contract("L-17", "L-69")
async def test_what_the_recipient_wishes_later_does_not_reach_the_provider(world: World) -> None:
    home = await world.home("en", "en")
    await world.wish(home, "formal", ("pigsty",))
    sent = await world.send(home)
    await world.wish(home, "humorous", ("afterthought",))
    async with world.orchestrator.in_home(home.home_id) as connection:
        await homes.put_member(connection, home.home_id, home.recipient, "ja")
    await world.run_submitter()

    ((line,),) = world.lines()
    assert "pigsty" in line
    assert "polite and formal" in line
    assert "afterthought" not in line
    assert "humour" not in line
    assert (await world.job(sent))["target_locale"] == "en"
