"""The payload: put together in memory, complete, and in agreement with the request, else nobody is asked."""

from __future__ import annotations

import dataclasses
import json
from typing import Any
from uuid import uuid4

import pytest

from penstock.apps.rewrite import execution, repository
from penstock.apps.rewrite.homes import home_key
from penstock.apps.rewrite.hydration import Unit
from penstock.apps.rewrite.models import Lane, PreferencesV1, RewriteRequestV1, RoutingDecisionV1
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from tests.apps.rewrite.conftest import Sent, World
from tests.apps.rewrite.rewriter import complaint


async def payload_of(world: World, sent: Sent) -> dict[str, Any]:
    """The payload of a job, as plain JSON."""
    found = await world.worker.execution.payload(await world.claimed(sent), sent.unit)
    assert found is not None
    return dict(json.loads(found.model_dump_json(by_alias=True)))


@pytest.mark.contract("A-15", "A-16", "A-17", "L-33", "L-34")
async def test_the_payload_names_the_job_the_people_and_both_snapshots(world: World) -> None:
    sent = await world.send(await world.home())
    payload, row, job = await payload_of(world, sent), await world.request(sent), await world.job(sent)

    assert (payload["job_type"], payload["job_id"]) == ("complaint_rewrite", str(job["job_id"]))
    for name in (
        "rewrite_request_id", "home_id", "sender_user_id", "recipient_user_id", "recipient_snapshot_id",
        "recipient_preference_snapshot_id",
    ):  # fmt: skip
        assert payload[name] == str(row[name])
    assert payload["sender_user_id"] == str(sent.home.sender)


@pytest.mark.contract("A-18", "L-35", "L-39", "A-20", "L-38")
async def test_the_payload_says_languages_lane_and_route(world: World) -> None:
    sent = await world.send(await world.home("en-US", "es-MX"))
    payload = await payload_of(world, sent)

    assert (payload["source_locale"], payload["target_locale"], payload["lane"]) == ("en", "es", "cross_language")
    route = RoutingDecisionV1.model_validate(payload["routing_decision"])
    assert (route.adapter_kind, route.base_url) == ("openai_responses", world.emulator.openai_base_url)
    assert payload["execution_mode"] == route.execution_mode == "batch"
    assert RewriteRequestV1.model_validate(payload["rewrite_request"]).message_text == complaint("en", sent.canary)


@pytest.mark.contract("A-21", "L-37", "C-39")
async def test_request_and_classification_are_in_the_payload_and_not_in_the_job(world: World) -> None:
    sent = await world.send(await world.home())
    payload = await payload_of(world, sent)

    assert payload["rewrite_request"]["schema"] == "RewriteRequestV1"
    assert payload["classifier_result"]["classifier_version"] == "spy-1"
    columns = await world.owner.fetch(
        "select column_name from information_schema.columns "
        "where table_schema = 'rewrite' and table_name = 'rewrite_jobs'"
    )
    assert not {"rewrite_request", "classifier_result"} & {row["column_name"] for row in columns}


@pytest.mark.contract("A-22", "A-23", "L-40", "A-24", "A-19")
async def test_the_payload_tells_attempt_budget_status_and_batch(world: World) -> None:
    sent = await world.send(await world.home())
    first = await payload_of(world, sent)
    await world.run_submitter()
    second = await payload_of(world, sent)

    assert (first["attempt"], first["max_attempts"], first["status"], first["provider_batch_id"]) == (
        1,
        2,
        "queued",
        None,
    )
    assert (second["status"], second["provider_batch_id"]) == ("batch_submitted", world.emulator.batches[0].id)


@pytest.mark.contract("A-33", "L-45")
async def test_a_stored_job_is_three_ids_and_its_route(world: World) -> None:
    sent = await world.send(await world.home())
    job = await world.job(sent)

    assert json.loads(job["payload"]) == json.loads(sent.unit.model_dump_json())
    assert job["idempotency_key"] == f"complaint_rewrite:{sent.request_id}:{sent.home.recipient}"
    assert len(json.loads(job["routing_decision"])) == 9


@pytest.mark.contract("A-25")
def test_what_is_executed_is_one_payload_and_nothing_beside_it() -> None:
    assert list(execution.request_of.__annotations__) == ["payload", "return"]
    assert list(execution.judged.__annotations__) == ["payload", "answer", "return"]
    assert (
        execution.request_of.__annotations__["payload"] == execution.judged.__annotations__["payload"] == "RewriteJobV1"
    )


Tamper = dict[str, Any]
TAMPERED: dict[str, Tamper] = {
    "rewrite_request_id": {"rewrite_request_id": uuid4()},
    "recipient_user_id": {"recipient_user_id": uuid4()},
    "home_id": {"home_id": uuid4()},
    "source_locale": {"source_locale": "fr"},
    "target_locale": {"target_locale": "fr"},
    "lane": {"lane": Lane.SAME_LANGUAGE},
    "preferences": {"tone": "casual"},
}


@pytest.mark.contract("A-28", "L-42")
@pytest.mark.parametrize("tampered", TAMPERED.values(), ids=TAMPERED)
async def test_a_job_that_does_not_agree_with_its_request_fails_before_anybody_is_asked(
    world: World, monkeypatch: pytest.MonkeyPatch, tampered: Tamper
) -> None:
    sent = await world.send(await world.home("en", "es"))
    load = repository.load_job

    async def tampering(connection: Any, job_id: Any, home_id: Any) -> Any:
        found = await load(connection, job_id, home_id)
        assert found is not None
        key = await home_key(connection, world.worker.keyring, sent.home.home_id)
        changed = dataclasses.replace(found, **tampered)
        request, wishes = found.request(key), found.preferences(key)
        monkeypatch.setattr(type(changed), "request", lambda _row, _key: request)
        if "tone" in tampered:
            wishes = PreferencesV1(tone=tampered["tone"])
        monkeypatch.setattr(type(changed), "preferences", lambda _row, _key: wishes)
        return changed

    monkeypatch.setattr(repository, "load_job", tampering)
    await world.run_submitter()

    assert await world.ends(sent) == [("failed", "failed", "PAYLOAD_REJECTED")]
    assert (world.asked(), await world.slots()) == (0, 0)


@pytest.mark.contract("A-28")
async def test_a_job_of_another_home_is_not_there_at_all(world: World) -> None:
    sent, other = await world.send(await world.home()), await world.home()
    strange = Unit(rewrite_request_id=sent.request_id, recipient_user_id=sent.home.recipient, home_id=other.home_id)
    with pytest.raises(Failed) as caught:
        await world.worker.execution.payload(await world.claimed(sent), strange)
    assert caught.value.error_class is FailureClass.PAYLOAD_REJECTED


async def test_text_that_was_moved_from_another_row_fails_and_is_not_asked_about(world: World) -> None:
    home = await world.home()
    sent, other = await world.send(home), await world.send(home)
    await world.owner.execute("alter table rewrite.rewrite_requests disable trigger user")
    await world.owner.execute(
        "update rewrite.rewrite_requests a set rewrite_request = b.rewrite_request from rewrite.rewrite_requests b "
        "where a.rewrite_request_id = $1 and b.rewrite_request_id = $2",
        sent.request_id,
        other.request_id,
    )
    await world.owner.execute("alter table rewrite.rewrite_requests enable trigger user")
    await world.through()

    assert [end[0] for end in await world.ends(sent, other)] == ["failed", "completed"]
    assert (await world.job(sent))["last_error_code"] == "PAYLOAD_REJECTED"


async def test_nothing_of_a_payload_shows_text(world: World) -> None:
    sent = await world.send(await world.home())
    payload = await world.worker.execution.payload(await world.claimed(sent), sent.unit)
    assert sent.canary not in f"{payload!r} {payload}"
