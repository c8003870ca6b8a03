"""POST /reviews and GET /reviews/{id}: who may, what reaches the application, what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from penstock.apps.review.application import review_app
from penstock.settings import load_settings
from penstock.store.api_keys import Scope
from penstock.web import create_app
from tests.web.conftest import HOME, REVIEW_ROW, SOURCES, Keys, LateLogins, Spy, bearer, opened

TO = {"channel": "smtp", "address": "dev@example.org"}
CANARY = "canary-5b20"


@pytest.fixture
async def served(
    dsns: dict[Scope, str], owner: psycopg.Connection[dict[str, Any]], spy: Spy
) -> AsyncIterator[httpx.AsyncClient]:
    """The routes over the application itself; no rewrites are served beside it."""
    owner.execute(REVIEW_ROW)
    reviews = review_app(load_settings(dsn=dsns[Scope.ORCHESTRATOR], review_sources=SOURCES))
    async with reviews.app, opened(create_app(load_settings(), LateLogins(dsns), reviewing=reviews)) as client:
        yield client
    assert spy.calls == []


@pytest.fixture
def key(keys: Keys) -> dict[str, str]:
    """The header of an orchestrator."""
    return bearer(keys.make("orchestrator"))


def asked(**changes: Any) -> dict[str, Any]:
    """A body that fits."""
    return {"changelist_id": "shop:main", "recipients": [TO], **changes}


async def post(client: httpx.AsyncClient, key: dict[str, str], idempotency: str = "k1", **changes: Any) -> Any:
    headers = {**key, "Idempotency-Key": idempotency, "Content-Type": "application/json"}
    return await client.post("/reviews", content=json.dumps(asked(**changes)), headers=headers)


@pytest.mark.contract("N-01", "N-34")
async def test_a_review_is_made_once_and_read_again(served: httpx.AsyncClient, key: dict[str, str]) -> None:
    made = await post(served, key, label="v1", review_version=3)
    assert made.status_code == 202
    body = made.json()
    assert (body["status"], body["stage"], body["review_version"], body["label"]) == ("in_progress", "fetch", 3, "v1")
    assert [(one["channel"], one["address"], one["status"]) for one in body["deliveries"]] == [
        ("smtp", "dev@example.org", "pending")
    ]
    assert body["findings"] is None
    assert made.headers["location"] == f"/reviews/{UUID(body['review_id'])}"
    again = await post(served, key, changelist_id="shop:other")
    assert (again.status_code, again.json()) == (200, body)
    read = await served.get(made.headers["location"], headers=key)
    assert (read.status_code, read.json()) == (200, body)


@pytest.mark.contract("N-03")
async def test_requests_at_once_with_one_key_make_one_job(
    served: httpx.AsyncClient, key: dict[str, str], owner: psycopg.Connection[dict[str, Any]]
) -> None:
    answers = await asyncio.gather(*(post(served, key) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [202]
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert owner.execute("select count(*) from penstock.jobs").fetchall() == [{"count": 1}]


@pytest.mark.contract("N-01")
async def test_without_a_key_of_idempotency_nothing_is_made(
    served: httpx.AsyncClient, key: dict[str, str], owner: psycopg.Connection[dict[str, Any]]
) -> None:
    answer = await served.post("/reviews", json=asked(), headers=key)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"where": "header.Idempotency-Key", "rule": "missing"}]
    assert owner.execute("select count(*) from penstock.jobs").fetchall() == [{"count": 0}]


@pytest.mark.contract("C-47", "N-05")
async def test_a_version_that_lies_below_another_is_told_as_such(
    served: httpx.AsyncClient, key: dict[str, str]
) -> None:
    await post(served, key, review_version=3)
    answer = await post(served, key, "k2", review_version=2, rerun=True)
    assert (answer.status_code, answer.json()["code"]) == (409, "rerun_not_allowed")


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"changelist_id": f"{CANARY}:main"}, "review_refused"),
    ({"changelist_id": f"shop:--{CANARY}"}, "review_refused"),
    ({"changelist_id": f"/etc/{CANARY}"}, "review_refused"),
    ({"label": f"{CANARY}\n"}, "review_refused"),
    ({"recipients": [TO, TO]}, "recipient_invalid"),
    ({"recipients": [{"channel": "smtp", "address": f"{CANARY} at example.org"}]}, "recipient_invalid"),
    ({"recipients": [{"channel": "webhook", "address": f"https://10.1.2.3/{CANARY}"}]}, "recipient_invalid"),
    ({"recipients": [{"channel": "webhook", "address": f"http://localhost/{CANARY}"}]}, "recipient_invalid"),
    ({"recipients": []}, "input_invalid"),
    ({"recipients": [{"channel": CANARY, "address": "x"}]}, "input_invalid"),
    ({"recipients": [{**TO, CANARY: 1}]}, "input_invalid"),
    ({"review_version": 0}, "input_invalid"),
    ({"review_version": "1"}, "input_invalid"),
    ({"review_version": 2**31}, "input_invalid"),
    ({"rerun": "yes"}, "input_invalid"),
    ({"changelist_id": "shop:\ud800"}, "input_invalid"),
    ({"recipients": [{**TO, "address": "\ud800@example.org"}]}, "input_invalid"),
    ({CANARY: 1}, "input_invalid"),
]


async def test_bad_input_is_refused_by_name_and_never_repeated(
    served: httpx.AsyncClient, key: dict[str, str], owner: psycopg.Connection[dict[str, Any]]
) -> None:
    for changes, code in MISFITS:
        answer = await post(served, key, **changes)
        assert (answer.status_code, answer.json()["code"]) == (422, code), changes
        assert CANARY not in answer.text, changes
    assert owner.execute("select count(*) from review.creation_keys").fetchall() == [{"count": 0}]


async def test_a_review_that_is_not_there_is_not_found(served: httpx.AsyncClient, key: dict[str, str]) -> None:
    answer = await served.get(f"/reviews/{uuid4()}", headers=key)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_only_an_orchestrator_of_no_home_may_ask(served: httpx.AsyncClient, keys: Keys) -> None:
    for token in (keys.make("frontend"), keys.make("operator"), keys.make("orchestrator", home_id=HOME)):
        for answer in (
            await post(served, bearer(token)),
            await served.get(f"/reviews/{uuid4()}", headers=bearer(token)),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert (await post(served, {})).status_code == 401


async def test_what_is_not_set_up_is_switched_off(
    served: httpx.AsyncClient, client: httpx.AsyncClient, key: dict[str, str]
) -> None:
    """Reviews without rewrites, and rewrites without reviews."""
    for there, path in ((client, "/reviews"), (served, "/rewrites")):
        body = asked() if path == "/reviews" else {
            "home_id": str(HOME), "sender_user_id": str(HOME), "mentions": [], "text": "x", "surface": "other",
        }  # fmt: skip
        answer = await there.post(path, json=body, headers={**key, "Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["code"]) == (503, "switched_off")
    assert (await served.put(f"/homes/{HOME}", headers=key)).json()["code"] == "switched_off"


async def test_before_any_worker_has_served_the_type_it_is_switched_off(
    served: httpx.AsyncClient, key: dict[str, str], owner: psycopg.Connection[dict[str, Any]]
) -> None:
    owner.execute("delete from penstock.types where job_type = 'review_processing'")
    answer = await post(served, key)
    assert (answer.status_code, answer.json()["code"]) == (503, "switched_off")
