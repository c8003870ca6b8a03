"""`/healthz`, `/readyz` and `/metrics`, in good times and bad."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from penstock.contract.errors import DatabaseUnavailable, SchemaOutdated, SettingsInvalid, UnsafeLogin
from penstock.settings import load_settings
from penstock.store.api_keys import Scope
from penstock.web import Logins, create_app
from tests.support.servers import PrivateServer
from tests.web.conftest import HOME, Keys, bearer, opened


def states(answer: httpx.Response) -> Any:
    return answer.json()["logins"]


async def test_all_is_well(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).json() == {"status": "alive"}
    answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ready", "logins": {"orchestrator": "ready", "frontend": "ready", "operator": "ready"},
    }  # fmt: skip


async def test_a_scope_without_a_login_is_switched_off_and_said_so(dsns: dict[Scope, str], keys: Keys) -> None:
    only = create_app(load_settings(), Logins({Scope.FRONTEND: dsns[Scope.FRONTEND]}))
    async with opened(only) as client:
        ready = await client.get("/readyz")
        assert (ready.status_code, states(ready)["orchestrator"]) == (200, "switched_off")
        answer = await client.put(f"/homes/{HOME}", headers=bearer(keys.make("orchestrator")))
        assert (answer.status_code, answer.json()["code"]) == (503, "switched_off")
    others = create_app(load_settings(), Logins({Scope.ORCHESTRATOR: dsns[Scope.ORCHESTRATOR]}))
    async with opened(others) as client:
        answer = await client.get("/rewrites/stream", headers=bearer(keys.make("frontend")))
        assert (answer.status_code, answer.json()["code"]) == (503, "switched_off")


@pytest.mark.parametrize("table", ["penstock.schema_version", "rewrite.schema_version"])
async def test_a_schema_of_another_version_is_not_ready(
    client: httpx.AsyncClient, owner: psycopg.Connection[Any], table: str
) -> None:
    owner.execute(f"update {table} set version_num = '0000'")
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
    assert set(states(answer).values()) == {"schema_outdated"}
    assert (await client.get("/healthz")).status_code == 200, "alive all the same"


async def test_a_role_that_lost_its_bounds_is_not_ready(
    client: httpx.AsyncClient, superuser_dsn: str, role_dsn: Callable[[str], str]
) -> None:
    with psycopg.connect(superuser_dsn, autocommit=True) as superuser:
        superuser.execute("create role loose login in role penstock_frontend")
        try:
            loose = create_app(load_settings(), Logins({Scope.FRONTEND: role_dsn("loose")}))
            async with opened(loose) as found:
                assert (await found.get("/readyz")).status_code == 200
                superuser.execute("alter role loose bypassrls")
                answer = await found.get("/readyz")
                assert (answer.status_code, states(answer)["frontend"]) == (503, "login_refused")
        finally:
            superuser.execute("drop role loose")
    assert (await client.get("/readyz")).status_code == 200


async def test_a_database_that_goes_away_is_told_and_comes_back(
    server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.store.api_keys import ROLES

    monkeypatch.setattr("penstock.web.logins.ASKED_WITHIN", 0.5)
    app = create_app(load_settings(), Logins({scope: server.role_dsn(role) for scope, role in ROLES.items()}))
    async with opened(app) as client:
        assert (await client.get("/readyz")).status_code == 200
        server.kill()
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert set(states(answer).values()) == {"database_away"}
        assert (await client.get("/healthz")).status_code == 200
        answer = await client.put(f"/homes/{HOME}", headers=bearer("a" * 12 + "." + "b" * 43))
        assert (answer.status_code, answer.json()["code"]) == (503, "database_away")
        assert answer.headers["retry-after"]
        server.start()
        assert (await client.get("/readyz")).status_code == 200
        server.freeze()
        async with asyncio.timeout(5):  # far below the time in which any other statement is given up
            answer = await client.get("/readyz")
        server.thaw()
        assert set(states(answer).values()) == {"database_away"}, "silence is an answer too"
        assert (await client.get("/readyz")).status_code == 200


async def refused_with(error: type[Exception], logins: Logins) -> str:
    app = create_app(load_settings(), logins)
    with pytest.raises(error) as refused:
        async with opened(app):
            pass
    return str(refused.value)


async def test_no_login_may_be_a_superuser_or_the_owner(superuser_dsn: str, dsn: str, dsns: dict[Scope, str]) -> None:
    said = await refused_with(UnsafeLogin, Logins({**dsns, Scope.FRONTEND: superuser_dsn}))
    assert "is a superuser" in said
    assert "penstock_frontend" in said
    said = await refused_with(UnsafeLogin, Logins({**dsns, Scope.FRONTEND: dsn}))
    assert "is the owner of the schema" in said
    async with opened(create_app(load_settings(), Logins({Scope.FRONTEND: superuser_dsn}, insecure=True))) as client:
        assert (await client.get("/readyz")).status_code == 200


async def test_a_login_of_another_role_is_told_apart(dsns: dict[Scope, str]) -> None:
    said = await refused_with(SettingsInvalid, Logins({Scope.FRONTEND: dsns[Scope.ORCHESTRATOR]}))
    assert "PENSTOCK_WEB_FRONTEND_DSN" in said
    assert "no member of penstock_frontend" in said


async def test_what_cannot_start_says_why(dsns: dict[Scope, str], owner: psycopg.Connection[Any]) -> None:
    with pytest.raises(SettingsInvalid, match="PENSTOCK_WEB_ORCHESTRATOR_DSN"):
        Logins({})
    secret = "sesame-9431"  # noqa: S105 - it must not be seen again
    said = await refused_with(DatabaseUnavailable, Logins({Scope.OPERATOR: f"postgresql://x:{secret}@127.0.0.1:1/n"}))
    assert secret not in said
    owner.execute("update penstock.schema_version set version_num = '0000'")
    await refused_with(SchemaOutdated, Logins(dsns))


async def test_metrics_count_by_route_and_show_nothing_of_anybody(client: httpx.AsyncClient, keys: Keys) -> None:
    token = keys.make("orchestrator")
    await client.put(f"/homes/{HOME}", headers=bearer(token))
    await client.get("/canary-1")
    shown = (await client.get("/metrics")).text
    assert 'web_requests_total{method="PUT",route="/homes/{home_id}",status="204"}' in shown
    assert 'route="none",status="404"' in shown
    assert "web_streams_open 0.0" in shown
    for secret in (str(HOME), "canary", token.partition(".")[0]):
        assert secret not in shown


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        ("192.0.2.7", {}), ("::ffff:192.0.2.7", {}), ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
        ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}), ("testclient", {}),
    ],
)  # fmt: skip
async def test_metrics_from_elsewhere_need_an_operators_key(
    app: FastAPI, keys: Keys, peer: str, headers: dict[str, str]
) -> None:
    async with opened(app, client=(peer, 1)) as client:
        assert (await client.get("/metrics", headers=headers)).status_code == 401
        for scope, status in (("frontend", 403), ("orchestrator", 403), ("operator", 200)):
            answer = await client.get("/metrics", headers={**headers, **bearer(keys.make(scope))})
            assert answer.status_code == status
