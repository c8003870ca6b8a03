"""Who may call what: every route with every kind of key."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import httpx
import psycopg
import pytest

from penstock.store import api_keys
from tests.web.conftest import HOME, OTHER_HOME, RECIPIENT, Keys, Spy, bearer, message

MEMBER: Final = f"/homes/{HOME}/members/{RECIPIENT}"


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    scope: str
    status: int
    body: Any = None


ROUTES: Final = (
    Route("POST", "/rewrites", "orchestrator", 202, message()),
    Route("PUT", f"/homes/{HOME}", "orchestrator", 204),
    Route("PUT", MEMBER, "orchestrator", 204, {"locale": "es-MX"}),
    Route("PUT", f"{MEMBER}/preferences", "orchestrator", 204, {"tone": "warm", "blocked_terms": ["lazy"]}),
)
GUARDED: Final = (*ROUTES, Route("GET", "/rewrites/stream", "frontend", 200))
each_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path[:30]}")
each_guarded = pytest.mark.parametrize("route", GUARDED, ids=lambda route: f"{route.method} {route.path[:30]}")


async def call(client: httpx.AsyncClient, route: Route, headers: dict[str, str]) -> httpx.Response:
    return await client.request(route.method, route.path, json=route.body, headers=headers)


def said(answer: httpx.Response) -> dict[str, Any]:
    """The problem, without what differs from request to request."""
    found: dict[str, Any] = answer.json()
    found.pop("request_id")
    return found


@each_route
async def test_a_key_of_the_scope_is_let_in(route: Route, client: httpx.AsyncClient, keys: Keys) -> None:
    answer = await call(client, route, bearer(keys.make(route.scope)))
    assert answer.status_code == route.status, answer.text


@each_guarded
async def test_missing_malformed_unknown_wrong_revoked_and_expired_are_one_answer(
    route: Route, client: httpx.AsyncClient, keys: Keys, spy: Spy, owner: psycopg.Connection[Any]
) -> None:
    revoked, expired = keys.make(route.scope), keys.make(route.scope, valid=timedelta(hours=1))
    keys.revoke(revoked)
    owner.execute("insert into penstock.clock (shift) values (interval '2 hours')")
    right = keys.make(route.scope)
    wrong = right.partition(".")[0] + "." + api_keys.new_token().partition(".")[2]
    tried = [
        {}, {"Authorization": "Bearer"}, {"Authorization": "Bearer x.y"}, {"Authorization": f"Basic {right}"},
        {"Authorization": "Bearer " + "é" * 56}, bearer(api_keys.new_token()), bearer(wrong), bearer(revoked),
        bearer(expired), {"Authorization": f"Bearer {right} {right}"},
    ]  # fmt: skip
    answers = [await call(client, route, _encoded(headers)) for headers in tried]
    assert {answer.status_code for answer in answers} == {401}
    assert {answer.headers["www-authenticate"] for answer in answers} == {'Bearer realm="penstock"'}
    assert all(said(answer) == said(answers[0]) for answer in answers)
    assert spy.calls == []


def _encoded(headers: dict[str, str]) -> Any:
    return {name.encode(): value.encode("latin-1") for name, value in headers.items()}


@each_guarded
@pytest.mark.contract("A-35")
async def test_a_key_of_another_scope_is_refused(route: Route, client: httpx.AsyncClient, keys: Keys, spy: Spy) -> None:
    for scope in {"orchestrator", "frontend", "operator"} - {route.scope}:
        answer = await call(client, route, bearer(keys.make(scope)))
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")
    assert spy.calls == []


@each_route
async def test_a_key_bound_to_a_home_is_for_that_home(
    route: Route, client: httpx.AsyncClient, keys: Keys, spy: Spy
) -> None:
    foreign = await call(client, route, bearer(keys.make("orchestrator", home_id=OTHER_HOME)))
    wrong_scope = await call(client, route, bearer(keys.make("operator")))
    assert foreign.status_code == 403
    assert said(foreign) == said(wrong_scope), "a home that is another's and a scope that is another's look alike"
    assert spy.calls == []
    assert (await call(client, route, bearer(keys.make("orchestrator", home_id=HOME)))).status_code == route.status


async def test_a_stranger_is_refused_before_the_body_is_looked_at(client: httpx.AsyncClient, keys: Keys) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json"}):
        answer = await client.post("/rewrites", content=b"{broken", headers=headers)
        assert answer.status_code == 401
    with_key = {**bearer(keys.make("orchestrator")), "Content-Type": "application/json"}
    assert (await client.post("/rewrites", content=b"{broken", headers=with_key)).status_code == 400


async def test_a_key_notes_its_use_now_and_then(
    client: httpx.AsyncClient, keys: Keys, owner: psycopg.Connection[dict[str, Any]]
) -> None:
    used = keys.make("orchestrator")

    async def last_use() -> Any:
        answer = await client.put(f"/homes/{HOME}", headers=bearer(used))
        assert answer.status_code == 204
        row = owner.execute("select last_used_at from penstock.list_keys()").fetchone()
        assert row is not None
        return row["last_used_at"]

    first = await last_use()
    assert first is not None
    assert await last_use() == first, "not written again for each request"
    owner.execute("insert into penstock.clock (shift) values (interval '6 minutes')")
    assert await last_use() > first


def test_what_is_stored_is_a_hash_and_ids_are_not_guessed(
    keys: Keys, owner: psycopg.Connection[dict[str, Any]]
) -> None:
    tokens = {keys.make("orchestrator") for _ in range(20)}
    stored = str(owner.execute("select * from penstock.api_keys").fetchall())
    assert len({token.partition(".")[0] for token in tokens}) == 20
    assert not any(token.partition(".")[2] in stored for token in tokens)
    assert all(len(token.partition(".")[2]) >= 43 for token in tokens), "256 bits in base64"


@pytest.mark.parametrize(
    ("scope", "home_id", "user_id"),
    [
        ("frontend", None, None), ("frontend", HOME, None), ("frontend", None, RECIPIENT),
        ("orchestrator", None, RECIPIENT), ("orchestrator", HOME, RECIPIENT), ("operator", HOME, None),
        ("operator", None, RECIPIENT), ("worker", None, None),
    ],
)  # fmt: skip
def test_the_database_refuses_a_binding_that_a_scope_does_not_have(
    owner: psycopg.Connection[Any], scope: str, home_id: UUID | None, user_id: UUID | None
) -> None:
    made = api_keys.credential(api_keys.new_token())
    assert made is not None
    with pytest.raises(psycopg.errors.CheckViolation):
        owner.execute(
            "select penstock.create_key(%s, %s, %s, %s, %s, 'n', 'w', null)",
            (made.key_id, made.digest, scope, home_id, user_id),
        )


def test_a_hash_that_is_missing_is_no_pass(keys: Keys, owner: psycopg.Connection[dict[str, Any]]) -> None:
    key_id = keys.make("operator").partition(".")[0]
    for tried in (None, b"", b"\0" * 32):
        row = owner.execute("select scope from penstock.check_key(%s, %s)", (key_id, tried)).fetchone()
        assert row == {"scope": None}
