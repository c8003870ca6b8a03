"""The routes of items in front of the vault itself: a key's user is the owner, and nobody else's items are there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from io import StringIO
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from penstock.apps.vault.application import vault_app
from penstock.settings import load_settings
from penstock.store.api_keys import Scope
from penstock.telemetry import logs
from penstock.web import create_app
from tests.apps.vault.typed import TYPE_ROW
from tests.web.conftest import RECIPIENT, SENDER, Keys, LateLogins, bearer, opened

Owner = psycopg.Connection[dict[str, Any]]
CANARY = "canary-e14d"
READY = (
    "update vault.items set status = 'READY_TO_CONFIRM', title = 'Bins', enrichment = "
    """'{"summary": "s", "tags": ["bins"], "language": "en", "entities": []}' where id = %s"""
)


@pytest.fixture
def app(dsns: dict[Scope, str], owner: Owner) -> FastAPI:
    """The API in front of the vault."""
    owner.execute(TYPE_ROW)
    vault = vault_app(load_settings(dsn=dsns[Scope.ORCHESTRATOR]))
    made = create_app(load_settings(), LateLogins(dsns), saving=vault)
    made.state.vault = vault
    return made


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of it."""
    async with app.state.vault.app, opened(app) as found:
        yield found


@pytest.fixture
def mine(keys: Keys) -> dict[str, str]:
    """The header of a user."""
    return bearer(keys.make("frontend"))


async def saved(client: httpx.AsyncClient, key: dict[str, str], content: str = f"Bins go out. {CANARY}") -> str:
    answer = await client.post("/items", json={"content": content, "kind": "note"}, headers=key)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["item_id"])


async def test_the_same_key_gives_the_same_item_and_another_item_under_it_is_refused(
    client: httpx.AsyncClient, mine: dict[str, str], keys: Keys, owner: Owner
) -> None:
    keyed = {**mine, "Idempotency-Key": "k-1"}
    first = await saved(client, keyed)
    assert await saved(client, keyed) == first
    refused = await client.post("/items", json={"content": f"Other. {CANARY}"}, headers=keyed)
    assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_conflict")
    assert CANARY not in refused.text
    other = bearer(keys.make("frontend", user_id=SENDER))
    assert await saved(client, {**other, "Idempotency-Key": "k-1"}) != first
    assert owner.execute("select count(*) as n from vault.items").fetchone() == {"n": 2}
    assert owner.execute("select count(*) as n from penstock.jobs").fetchone() == {"n": 2}


@pytest.mark.contract("D-08")
async def test_an_item_is_saved_for_the_user_of_the_key_with_its_job(
    client: httpx.AsyncClient, mine: dict[str, str], owner: Owner
) -> None:
    answer = await client.post("/items", json={"content": f"Bins. {CANARY}"}, headers=mine)
    body = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, f"/items/{body['item_id']}")
    assert (body["status"], body["kind"], body["title"], body["enrichment"]) == ("ENRICHING", "text", None, None)
    row = owner.execute("select owner_id, content from vault.items").fetchone()
    assert row == {"owner_id": RECIPIENT, "content": f"Bins. {CANARY}"}
    job = owner.execute("select job_type, status, payload from penstock.jobs").fetchone()
    assert job == {"job_type": "enrichment", "status": "queued", "payload": {"item_id": body["item_id"]}}


async def test_an_item_goes_its_way_over_http(client: httpx.AsyncClient, mine: dict[str, str], owner: Owner) -> None:
    item = await saved(client, mine)
    early = await client.post(f"/items/{item}/confirm", headers=mine)
    assert (early.status_code, early.json()["code"]) == (409, "item_moved_on")
    assert "ENRICHING" in early.json()["title"]
    owner.execute(READY, [UUID(item)])
    assert (await client.get(f"/items/{item}", headers=mine)).json()["enrichment"]["tags"] == ["bins"]
    assert (await client.post(f"/items/{item}/confirm", headers=mine)).json()["status"] == "CONFIRMED"
    for wish in ("confirm", "discard", "enrich"):
        twice = await client.post(f"/items/{item}/{wish}", headers=mine)
        assert (twice.status_code, twice.json()["code"]) == (409, "item_moved_on")
        assert CANARY not in twice.text
        assert item not in twice.text


async def test_a_failed_item_is_enriched_again_and_one_that_is_enriching_discarded(
    client: httpx.AsyncClient, mine: dict[str, str], owner: Owner
) -> None:
    item = await saved(client, mine)
    owner.execute("select penstock.cancel(job_id, 'tester', 'no longer wanted') from penstock.jobs")
    read = (await client.get(f"/items/{item}", headers=mine)).json()
    assert (read["status"], read["failure_code"]) == ("ENRICHMENT_FAILED", "CANCELED")
    again = await client.post(f"/items/{item}/enrich", headers=mine)
    assert (again.status_code, again.json()["status"]) == (202, "ENRICHING")
    assert (await client.post(f"/items/{item}/discard", headers=mine)).json()["status"] == "DISCARDED"


async def test_a_list_is_one_s_own_and_has_pages(client: httpx.AsyncClient, mine: dict[str, str], keys: Keys) -> None:
    items = [await saved(client, mine, f"Item {number}") for number in range(3)]
    theirs = bearer(keys.make("frontend", user_id=SENDER))
    listed = (await client.get("/items?limit=2", headers=mine)).json()["items"]
    assert [item["item_id"] for item in listed] == [items[2], items[1]]
    assert [item["preview"] for item in listed] == ["Item 2", "Item 1"]
    rest = (await client.get(f"/items?limit=2&before={items[1]}", headers=mine)).json()["items"]
    assert [item["item_id"] for item in rest] == [items[0]]
    assert (await client.get("/items?status=CONFIRMED", headers=mine)).json() == {"items": []}
    assert (await client.get("/items", headers=theirs)).json() == {"items": []}


async def test_a_slip_in_a_word_of_the_query_is_told_and_not_passed_over(
    client: httpx.AsyncClient, mine: dict[str, str]
) -> None:
    answer = await client.get("/items?limt=2", headers=mine)
    assert (answer.status_code, answer.json()["errors"]) == (422, [{"where": "query", "rule": "extra_forbidden"}])
    assert "limt" not in answer.text


async def test_items_of_others_and_items_that_are_not_look_alike(
    client: httpx.AsyncClient, mine: dict[str, str], keys: Keys
) -> None:
    item = await saved(client, mine)
    theirs = bearer(keys.make("frontend", user_id=SENDER))
    for which in (item, str(uuid4())):
        for method, path in (("GET", ""), ("POST", "/confirm"), ("POST", "/discard"), ("POST", "/enrich")):
            answer = await client.request(method, f"/items/{which}{path}", headers=theirs)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await client.get(f"/items/{item}", headers=mine)).json()["status"] == "ENRICHING"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"content": ""}, "item_empty"),
        ({"content": " \u200b\n"}, "item_empty"),
        ({"content": f"nul \0 {CANARY}"}, "item_unreadable"),
        ({"content": f"half \ud800 {CANARY}"}, "item_unreadable"),
        ({"content": f"no link {CANARY}", "kind": "link"}, "link_invalid"),
        ({"content": CANARY, "kind": "video"}, "input_invalid"),
        ({"content": CANARY, "owner_id": str(SENDER)}, "input_invalid"),
        ({"content": [CANARY]}, "input_invalid"),
        ({}, "input_invalid"),
    ],
)
async def test_what_cannot_be_an_item_is_refused_by_code_and_not_repeated(
    client: httpx.AsyncClient, mine: dict[str, str], owner: Owner, body: dict[str, Any], code: str
) -> None:
    headers = {**mine, "Content-Type": "application/json"}
    answer = await client.post("/items", content=json.dumps(body), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert CANARY not in answer.text
    assert owner.execute("select count(*) from vault.items").fetchone() == {"count": 0}


async def test_an_enormous_item_is_refused_before_or_after_it_is_read(
    client: httpx.AsyncClient, mine: dict[str, str], dsns: dict[Scope, str]
) -> None:
    huge = await client.post("/items", json={"content": "x" * 140_000}, headers=mine)
    assert (huge.status_code, huge.json()["code"]) == (413, "body_too_large")
    vault = vault_app(load_settings(dsn=dsns[Scope.ORCHESTRATOR], vault_max_item_bytes=1000))
    app = create_app(load_settings(), LateLogins(dsns), saving=vault)
    async with vault.app, opened(app) as other:
        large = await other.post("/items", json={"content": "x" * 1001}, headers=mine)
        assert (large.status_code, large.json()["code"]) == (422, "item_too_large")


@pytest.mark.parametrize("scope", ["orchestrator", "operator"])
async def test_keys_that_speak_for_nobody_have_no_items(client: httpx.AsyncClient, keys: Keys, scope: str) -> None:
    key = bearer(keys.make(scope))
    for method, path in (("POST", "/items"), ("GET", "/items"), ("GET", f"/items/{uuid4()}")):
        answer = await client.request(method, path, headers=key, json={} if method == "POST" else None)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert (await client.get("/items")).status_code == 401


async def test_without_a_vault_the_routes_are_switched_off(dsns: dict[Scope, str], mine: dict[str, str]) -> None:
    async with opened(create_app(load_settings(), LateLogins(dsns))) as client:
        answer = await client.get("/items", headers=mine)
    assert (answer.status_code, answer.json()["code"]) == (503, "switched_off")


async def test_a_type_that_nobody_serves_is_switched_off_too(
    client: httpx.AsyncClient, mine: dict[str, str], owner: Owner
) -> None:
    owner.execute("delete from penstock.types")
    answer = await client.post("/items", json={"content": "x"}, headers=mine)
    assert (answer.status_code, answer.json()["code"]) == (503, "switched_off")
    assert owner.execute("select count(*) from vault.items").fetchone() == {"count": 0}


async def test_no_line_of_the_log_holds_what_was_saved(client: httpx.AsyncClient, mine: dict[str, str]) -> None:
    stream = StringIO()
    logs.configure("debug", "json", stream=stream)
    try:
        item = await saved(client, mine)
        await client.get(f"/items/{item}?{CANARY}", headers=mine)
        await client.post("/items", json={"content": f"\0{CANARY}"}, headers=mine)
    finally:
        logs.reset()
    assert "/items/{item_id}" in stream.getvalue()
    assert CANARY not in stream.getvalue()
