"""The real application on a real database, with keys of every kind; what is behind the routes can be stood in for."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import psycopg
import pytest
from fastapi import FastAPI
from psycopg.rows import dict_row

from penstock.contract.keys import uuid7
from penstock.settings import load_settings
from penstock.store import api_keys
from penstock.store.api_keys import ROLES, Scope
from penstock.web import Logins, create_app

HOME, OTHER_HOME = UUID(int=0xA), UUID(int=0xB)
SENDER, RECIPIENT = UUID(int=1), UUID(int=2)
ADVICE = (
    '{"classifier_version": "rules-1", "detected_language": "en", "language_confidence": "high", "topics": [], '
    '"intent": "complaint", "rewrite_strength": "light_touch", "safety_flags": []}'
)
# The type as a worker makes it known, and a source that nobody fetches from here.
REVIEW_ROW = (
    "insert into penstock.types (job_type, policy, stages, max_attempts, dispatch, audited, replayable) "
    "values ('review_processing', '{}', '{fetch,llm,notify}', 5, 'notify', true, true)"
)
SOURCES = '{"shop": {"kind": "git", "path": "/srv/git/shop.git"}}'


class LateLogins(Logins):
    """Logins that connect when they are first used: most tests ask for one of the three.

    To connect and to look at all three takes 40 ms of processor time. The tests
    of health, of the whole and of made-up requests do it.
    """

    async def open(self) -> None:
        create_pool = asyncpg.create_pool
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncpg, "create_pool", lambda dsn, **given: create_pool(dsn, **{**given, "min_size": 0}))
            patch.setattr(self, "_look", _trust)
            await super().open()


async def _trust(_scope: Scope) -> None:
    """Nothing to look at."""


@dataclass(frozen=True)
class Taken:
    rewrite_request_id: UUID
    accepted: bool = True


@dataclass
class Spy:
    """Stands behind the routes: remembers what came, and answers or raises what it was told."""

    raises: Exception | None = None
    accepts: bool = True
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def submit_rewrite(self, **message: Any) -> Taken:
        self._note("submit_rewrite", message)
        return Taken(uuid7(), self.accepts)

    async def put_home(self, home_id: UUID) -> None:
        self._note("put_home", {"home_id": home_id})

    async def put_member(self, home_id: UUID, user_id: UUID, locale: str | None) -> None:
        self._note("put_member", {"home_id": home_id, "user_id": user_id, "locale": locale})

    async def put_preferences(
        self, home_id: UUID, user_id: UUID, tone: str | None, blocked_terms: Sequence[str]
    ) -> None:
        self._note(
            "put_preferences", {"home_id": home_id, "user_id": user_id, "tone": tone, "terms": list(blocked_terms)}
        )

    def _note(self, name: str, arguments: dict[str, Any]) -> None:
        self.calls.append((name, arguments))
        if self.raises is not None:
            raise self.raises


@dataclass(frozen=True)
class Keys:
    """Makes keys as the schema's owner."""

    owner: psycopg.Connection[dict[str, Any]]

    def make(
        self, scope: str, *, home_id: UUID | None = None, user_id: UUID | None = None, valid: timedelta | None = None
    ) -> str:
        token = api_keys.new_token()
        made = api_keys.credential(token)
        assert made is not None
        if scope == "frontend":
            home_id, user_id = home_id or HOME, user_id or RECIPIENT
        self.owner.execute(
            "select penstock.create_key(%s, %s, %s, %s, %s, 'test', 'tester', %s)",
            (made.key_id, made.digest, scope, home_id, user_id, valid),
        )
        return token

    def revoke(self, token: str) -> None:
        self.owner.execute("select penstock.revoke_key(%s, 'tester')", (token.partition(".")[0],))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def message(**changes: Any) -> dict[str, Any]:
    """A body of POST /rewrites that fits."""
    given = {
        "home_id": str(HOME), "sender_user_id": str(SENDER), "mentions": [str(RECIPIENT)], "text": "Take out the bins!",
        "surface": "direct_message",
    }  # fmt: skip
    return {**given, **changes}


@pytest.fixture
def owner(dsn: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """The owner's connection; every statement commits."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def keys(owner: psycopg.Connection[dict[str, Any]]) -> Keys:
    """Makes keys."""
    return Keys(owner)


@pytest.fixture
def dsns(role_dsn: Callable[[str], str]) -> dict[Scope, str]:
    """The login of every scope."""
    return {scope: role_dsn(role) for scope, role in ROLES.items()}


@pytest.fixture
def spy() -> Spy:
    """What stands behind the routes."""
    return Spy()


@asynccontextmanager
async def opened(app: FastAPI, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of *app* in this process, from its start to its stop."""
    transport = httpx.ASGITransport(app, **options)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://api.test") as client,
    ):
        yield client


@pytest.fixture
def app(dsns: dict[Scope, str], spy: Spy) -> FastAPI:
    """The application with every scope switched on."""
    return create_app(load_settings(), LateLogins(dsns), rewriting=spy, homes=spy)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application."""
    async with opened(app) as found:
        yield found


def a_request(owner: psycopg.Connection[dict[str, Any]], home_id: UUID = HOME) -> UUID:
    """A request of a home as the orchestrator would have stored it, received."""
    request_id = uuid4()
    _home(owner, home_id)
    snapshot, wishes = uuid4(), uuid4()
    owner.execute("insert into rewrite.recipient_snapshots values (%s, %s)", (snapshot, home_id))
    owner.execute("insert into rewrite.recipient_snapshot_members values (%s, %s, %s)", (snapshot, home_id, RECIPIENT))
    owner.execute(
        "insert into rewrite.recipient_preference_snapshots (recipient_preference_snapshot_id, home_id, user_id) "
        "values (%s, %s, %s)",
        (wishes, home_id, RECIPIENT),
    )
    owner.execute(
        "insert into rewrite.rewrite_requests (rewrite_request_id, home_id, sender_user_id, recipient_user_id, "
        "recipient_snapshot_id, recipient_preference_snapshot_id, surface, rewrite_strength, source_locale, "
        "target_locale, lane, classifier_result, rewrite_request) values "
        "(%s, %s, %s, %s, %s, %s, 'other', 'light_touch', 'en', 'en', 'same_language', %s, 'sealed')",
        (request_id, home_id, SENDER, RECIPIENT, snapshot, wishes, ADVICE),
    )
    return request_id


def _home(owner: psycopg.Connection[dict[str, Any]], home_id: UUID) -> None:
    owner.execute("insert into rewrite.homes values (%s) on conflict do nothing", (home_id,))
    for user in (SENDER, RECIPIENT):
        owner.execute("insert into rewrite.users values (%s) on conflict do nothing", (user,))
        owner.execute("insert into rewrite.home_members values (%s, %s) on conflict do nothing", (home_id, user))


def move(owner: psycopg.Connection[dict[str, Any]], request_id: UUID, status: str) -> None:
    """Change the status of a request."""
    owner.execute(
        "update rewrite.rewrite_requests set status = %s, failure_code = case when %s = 'failed' then "
        "'rewrite_unavailable' end where rewrite_request_id = %s",
        (status, status, request_id),
    )
