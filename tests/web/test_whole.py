"""The API in front of the real rewrite application: a home is made, a message handed in, its status followed."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from penstock.apps.rewrite.application import Rewrites, rewrite_app
from penstock.apps.rewrite.keyring import new_key
from penstock.settings import load_settings
from penstock.store.api_keys import Scope
from penstock.web import Logins, create_app
from penstock.web.homes import KeptHomes
from tests.apps.rewrite.estate import TYPE_ROW
from tests.web.conftest import HOME, OTHER_HOME, RECIPIENT, SENDER, Keys, bearer, message
from tests.web.live import following, serving

Owner = psycopg.Connection[dict[str, Any]]
CANARY = "canary-93aa"
MECHANICS = re.compile(
    r"provider|adapter|model|batch|claim|lease|limit|attempt|worker|queue_|routing|prompt|locale|openai|gpt|job_",
    re.IGNORECASE,
)
TEXT = f"You never take the bins out and I am sick of it. {CANARY}"


@pytest.fixture
async def rewrites(dsns: dict[Scope, str], owner: Owner) -> AsyncIterator[Rewrites]:
    """The orchestrator's side, without any way to a provider."""
    owner.execute(TYPE_ROW)
    made = rewrite_app(
        load_settings(dsn=dsns[Scope.ORCHESTRATOR], text_keys=new_key("k1"), rewrite_languages=("en", "es"))
    )
    made.app.use_adapters({})
    async with made.app:
        yield made


@pytest.fixture
async def live(rewrites: Rewrites, dsns: dict[Scope, str]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the whole."""
    app = create_app(load_settings(), Logins(dsns), rewriting=rewrites, homes=KeptHomes(rewrites))
    async with serving(app) as (_, client):
        yield client


@pytest.fixture
async def key(live: httpx.AsyncClient, keys: Keys) -> dict[str, str]:
    """The header of an orchestrator whose home has two members."""
    headers = bearer(keys.make("orchestrator"))
    for path, body in (
        (f"/homes/{HOME}", None), (f"/homes/{HOME}/members/{SENDER}", {"locale": "en-GB"}),
        (f"/homes/{HOME}/members/{RECIPIENT}", {"locale": "es-MX"}),
        (f"/homes/{HOME}/members/{RECIPIENT}/preferences", {"tone": "warm", "blocked_terms": [CANARY]}),
    ):  # fmt: skip
        for _ in range(2):  # the second time nothing changes
            answer = await live.put(path, json=body, headers=headers)
            assert answer.status_code == 204, answer.text
    return headers


@pytest.mark.contract("Q-83", "Q-84", "Q-87")
async def test_a_message_is_taken_at_once_and_its_home_is_told(
    live: httpx.AsyncClient, key: dict[str, str], keys: Keys, owner: Owner
) -> None:
    async with (
        following(live, keys.make("frontend", home_id=HOME)) as ours,
        following(live, keys.make("frontend", home_id=OTHER_HOME)) as theirs,
    ):
        assert await ours.snapshot() == await theirs.snapshot() == []
        answer = await live.post("/rewrites", json=message(text=TEXT, reveal_delay_seconds=3600), headers=key)
        assert answer.status_code == 202
        event = await ours.next()
        assert event.told == (answer.json()["rewrite_request_id"], "queued")
        move_on = "select penstock.cancel(job_id, 'tester', 'no longer wanted') from penstock.jobs"
        owner.execute(move_on)
        assert (await ours.next()).told == (answer.json()["rewrite_request_id"], "canceled")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await theirs.next()
    stored = owner.execute("select rewrite_request::text, classifier_result::text from rewrite.rewrite_requests")
    assert CANARY not in str(stored.fetchall())
    assert CANARY not in str(owner.execute("select * from penstock.jobs").fetchall())
    assert CANARY not in str(owner.execute("select blocked_terms from rewrite.preferences").fetchall())


@pytest.mark.contract("Q-05", "A-47", "A-68")
async def test_nothing_that_a_frontend_receives_names_a_mechanism(
    live: httpx.AsyncClient, key: dict[str, str], keys: Keys, owner: Owner
) -> None:
    frontend = bearer(keys.make("frontend", home_id=HOME))
    received = [(await live.request(method, path, headers=frontend)).text for method, path in (
        ("POST", "/rewrites"), ("PUT", f"/homes/{HOME}"), ("GET", "/rewrites"), ("GET", f"/rewrites/{uuid4()}"),
        ("GET", "/jobs"), ("GET", "/readyz"),
    )]  # fmt: skip
    await live.post("/rewrites", json=message(text=TEXT), headers=key)
    owner.execute("select penstock.cancel(job_id, 'tester', 'no longer wanted') from penstock.jobs")
    async with live.stream("GET", "/rewrites/stream", headers=frontend) as stream:
        received.append(str(stream.headers))
        async for line in stream.aiter_lines():
            received.append(line)
            if line == "event: live":
                break
    assert any('"canceled"' in line for line in received)
    assert not [line for line in received if MECHANICS.search(line)]


async def test_the_same_key_and_message_are_one_request(
    live: httpx.AsyncClient, key: dict[str, str], owner: Owner
) -> None:
    headers = {**key, "Idempotency-Key": "message 17"}
    answers = await asyncio.gather(
        *(live.post("/rewrites", json=message(text=TEXT), headers=headers) for _ in range(8))
    )
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["rewrite_request_id"] for answer in answers}) == 1
    other = await live.post("/rewrites", json=message(text="Something else entirely."), headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    counted = owner.execute("select count(*) from rewrite.rewrite_requests").fetchone()
    assert counted == {"count": 1}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"mentions": []}, "recipient_missing"),
        ({"mentions": [str(RECIPIENT), str(uuid4())]}, "recipient_many"),
        ({"mentions": [str(uuid4())]}, "recipient_stranger"),
        ({"mentions": [str(SENDER)]}, "recipient_is_sender"),
        ({"sender_user_id": str(uuid4())}, "sender_stranger"),
        ({"home_id": str(uuid4())}, "home_unknown"),
        ({"text": ""}, "text_empty"),
        ({"text": " \n\t\u200b"}, "text_empty"),
        ({"text": "x" * 8001}, "text_too_long"),
        ({"text": "nul \0"}, "text_unreadable"),
        ({"reveal_delay_seconds": 366 * 86_400 + 1}, "input_invalid"),
    ],
)
async def test_bad_messages_are_refused_by_code_and_leave_nothing(
    live: httpx.AsyncClient, key: dict[str, str], owner: Owner, changes: dict[str, Any], code: str
) -> None:
    answer = await live.post("/rewrites", json=message(**{"text": TEXT, **changes}), headers=key)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert CANARY not in answer.text
    assert owner.execute("select count(*) from rewrite.rewrite_requests").fetchone() == {"count": 0}


@pytest.mark.contract("A-38", "C-53", "R-23")
async def test_a_message_that_cannot_be_enqueued_fails_for_the_operator_and_is_unavailable_for_the_caller(
    live: httpx.AsyncClient, key: dict[str, str], owner: Owner
) -> None:
    owner.execute("delete from penstock.types where job_type = 'complaint_rewrite'")
    answer = await live.post("/rewrites", json=message(text=TEXT), headers=key)
    assert answer.status_code == 503
    assert answer.json().keys() == {"type", "code", "title", "status", "request_id"}
    assert answer.json()["code"] == "rewrite_unavailable"
    (stored,) = owner.execute("select status, failure_code from rewrite.rewrite_requests").fetchall()
    assert stored == {"status": "failed", "failure_code": "rewrite_unavailable"}


@pytest.mark.parametrize("path", ["members/{user}", "members/{user}/preferences"])
async def test_a_home_that_nobody_made_or_that_was_erased_is_unknown(
    live: httpx.AsyncClient, key: dict[str, str], owner: Owner, path: str
) -> None:
    user: UUID = RECIPIENT
    answer = await live.put(f"/homes/{uuid4()}/{path.format(user=user)}", json={}, headers=key)
    assert (answer.status_code, answer.json()["code"]) == (422, "home_unknown")
    owner.execute("select rewrite.forget_home(%s)", (HOME,))
    for target in (f"/homes/{HOME}", f"/homes/{HOME}/{path.format(user=user)}"):
        answer = await live.put(target, json={}, headers=key)
        assert (answer.status_code, answer.json()["code"]) == (422, "home_unknown")


async def test_a_stranger_wishes_nothing(live: httpx.AsyncClient, key: dict[str, str]) -> None:
    answer = await live.put(f"/homes/{HOME}/members/{uuid4()}/preferences", json={"tone": "warm"}, headers=key)
    assert (answer.status_code, answer.json()["code"]) == (422, "member_unknown")
