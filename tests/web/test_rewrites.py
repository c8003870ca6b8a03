"""POST /rewrites and what is said of homes: what reaches the application, and what comes back."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from penstock.apps.rewrite import refusals
from penstock.apps.rewrite.models import Surface
from penstock.contract.errors import DatabaseUnavailable
from tests.web.conftest import HOME, RECIPIENT, SENDER, Keys, Spy, bearer, message

CANARY = "canary-7d1f: she never washes up"


@pytest.fixture
def key(keys: Keys) -> dict[str, str]:
    """The header of an orchestrator."""
    return bearer(keys.make("orchestrator"))


@pytest.mark.contract("Q-83")
async def test_a_message_is_handed_on_and_its_request_named(
    client: httpx.AsyncClient, key: dict[str, str], spy: Spy
) -> None:
    headers = {**key, "Idempotency-Key": "msg 17"}
    answer = await client.post("/rewrites", json=message(text=CANARY, reveal_delay_seconds=60), headers=headers)
    assert answer.status_code == 202
    assert answer.json().keys() == {"rewrite_request_id", "status"}
    UUID(answer.json()["rewrite_request_id"])
    assert answer.json()["status"] == "queued"
    assert spy.calls == [
        ("submit_rewrite", {
            "home_id": HOME, "sender_user_id": SENDER, "recipient_user_ids": [RECIPIENT], "text": CANARY,
            "surface": Surface.DIRECT_MESSAGE, "reveal_delay": timedelta(minutes=1), "idempotency_key": "msg 17",
        })
    ]  # fmt: skip


@pytest.mark.contract("A-38", "A-47", "A-68", "R-23")
@pytest.mark.parametrize(
    "failure",
    [None, DatabaseUnavailable(CANARY), RuntimeError(CANARY), ConnectionResetError(CANARY), TimeoutError(CANARY)],
    ids=lambda failure: type(failure).__name__,
)
async def test_a_message_that_cannot_be_taken_gets_the_general_failure_and_nothing_else(
    client: httpx.AsyncClient,
    key: dict[str, str],
    spy: Spy,
    failure: Exception | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spy.raises, spy.accepts = failure, False
    answer = await client.post("/rewrites", json=message(text=CANARY), headers=key)
    assert answer.status_code == 503
    assert answer.json().keys() == {"type", "code", "title", "status", "request_id"}
    assert answer.json()["code"] == "rewrite_unavailable"
    assert "canary" not in answer.text + str(answer.headers) + "".join(capsys.readouterr())


@pytest.mark.parametrize("code", sorted(set(refusals.WHY) - {"idempotency_conflict"}))
async def test_refused_input_has_a_code_of_its_own(
    client: httpx.AsyncClient, key: dict[str, str], spy: Spy, code: str
) -> None:
    spy.raises = refusals.RewriteRefused(code)
    answer = await client.post("/rewrites", json=message(text=CANARY), headers=key)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert answer.json()["title"] == refusals.WHY[code]
    assert "canary" not in answer.text


async def test_a_key_that_came_with_another_message_is_a_conflict(
    client: httpx.AsyncClient, key: dict[str, str], spy: Spy
) -> None:
    spy.raises = refusals.IdempotencyConflict()
    answer = await client.post("/rewrites", json=message(), headers={**key, "Idempotency-Key": "k"})
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")


@pytest.mark.parametrize("value", ["", "x" * 201, "tab\there", "caf\xe9", "nul\0", "bell\x07"])
async def test_an_idempotency_key_is_short_and_printable(
    client: httpx.AsyncClient, key: dict[str, str], spy: Spy, value: str
) -> None:
    headers: Any = {name.encode(): text.encode() for name, text in key.items()}
    answer = await client.post(
        "/rewrites", json=message(), headers={**headers, b"Idempotency-Key": value.encode("latin-1")}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "input_invalid")
    assert answer.json()["errors"][0]["where"].lower() == "header.idempotency-key"
    assert spy.calls == []


async def test_two_idempotency_keys_are_none(client: httpx.AsyncClient, key: dict[str, str], spy: Spy) -> None:
    headers = [*key.items(), ("Idempotency-Key", "one"), ("Idempotency-Key", "two")]
    answer = await client.post("/rewrites", json=message(), headers=headers)
    assert (answer.status_code, spy.calls) == (400, [])


async def test_what_is_said_of_homes_is_handed_on(client: httpx.AsyncClient, key: dict[str, str], spy: Spy) -> None:
    member = f"/homes/{HOME}/members/{RECIPIENT}"
    for path, body in (
        (f"/homes/{HOME}", None), (member, {"locale": "es-MX"}), (member, {}),
        (f"{member}/preferences", {"tone": "warm", "blocked_terms": ["lazy", "nul\0"]}), (f"{member}/preferences", {}),
    ):  # fmt: skip
        answer = await client.put(path, json=body, headers=key)
        assert (answer.status_code, answer.content) == (204, b"")
    ids = {"home_id": HOME, "user_id": RECIPIENT}
    assert spy.calls == [
        ("put_home", {"home_id": HOME}),
        ("put_member", {**ids, "locale": "es-MX"}),
        ("put_member", {**ids, "locale": None}),
        ("put_preferences", {**ids, "tone": "warm", "terms": ["lazy", "nul\0"]}),
        ("put_preferences", {**ids, "tone": None, "terms": []}),
    ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("", {"locale": "x" * 36}), ("", {"locale": "nul\0"}), ("", {"locale": 5}), ("", {"name": CANARY}), ("", []),
        ("", None), ("/preferences", {"tone": "Very Warm"}), ("/preferences", {"blocked_terms": [""]}),
        ("/preferences", {"blocked_terms": ["x" * 101]}), ("/preferences", {"blocked_terms": ["x"] * 101}),
        ("/preferences", {"blocked_terms": CANARY}),
    ],
)  # fmt: skip
async def test_what_does_not_fit_is_refused_by_place_and_rule(
    client: httpx.AsyncClient, key: dict[str, str], spy: Spy, path: str, body: Any
) -> None:
    answer = await client.put(f"/homes/{HOME}/members/{RECIPIENT}{path}", json=body, headers=key)
    assert answer.status_code in (415, 422), answer.text
    assert "canary" not in answer.text
    assert spy.calls == []
