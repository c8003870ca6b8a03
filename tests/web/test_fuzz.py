"""The OpenAPI document is true: whatever fits it or does not, over a real socket, is answered as it says."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import psycopg
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import checks
from schemathesis.generation import GenerationMode

from penstock.apps.review.application import review_app
from penstock.apps.rewrite.application import rewrite_app
from penstock.apps.rewrite.keyring import new_key
from penstock.apps.vault.application import vault_app
from penstock.settings import load_settings
from penstock.store.api_keys import Scope
from penstock.web import Logins, create_app
from penstock.web.homes import KeptHomes
from penstock.web.server import Server, bound_socket
from tests.apps.rewrite.estate import TYPE_ROW
from tests.apps.vault.typed import TYPE_ROW as ENRICHMENT_ROW
from tests.support.loopback import NOBODY
from tests.web.conftest import HOME, RECIPIENT, REVIEW_ROW, SENDER, SOURCES, Keys, bearer

pytestmark = pytest.mark.long

Call = Callable[[Any, dict[str, str]], Any]

STREAM: Final = "/rewrites/stream"  # without an end
EXAMPLES: Final = 25
CHECKS: Final = [
    checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance, checks.negative_data_rejection,
    checks.unsupported_method, checks.missing_required_header,
]  # fmt: skip
CALM: Final = settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture
def url(dsns: dict[Scope, str], owner: psycopg.Connection[Any]) -> Iterator[str]:
    """The whole application, served from a thread."""
    owner.execute(TYPE_ROW)
    owner.execute(REVIEW_ROW)
    owner.execute(ENRICHMENT_ROW)
    found: list[Server] = []
    ready = threading.Event()

    async def serve() -> None:
        orchestrator = dsns[Scope.ORCHESTRATOR]
        rewrites = rewrite_app(load_settings(dsn=orchestrator, text_keys=new_key("k1"), rewrite_languages=("en", "es")))
        reviews = review_app(load_settings(dsn=orchestrator, review_sources=SOURCES))
        vault = vault_app(load_settings(dsn=orchestrator))
        async with rewrites.app, reviews.app, vault.app:
            behind: Any = {"rewriting": rewrites, "homes": KeptHomes(rewrites), "reviewing": reviews, "saving": vault}
            app = create_app(load_settings(), Logins(dsns), **behind)
            server = Server(app, bound_socket("127.0.0.1", 0))
            found.append(server)
            working = asyncio.create_task(server.work())
            await server.listening.wait()
            ready.set()
            await working

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(30)
    yield found[0].url
    found[0].should_exit = True
    thread.join(30)


@pytest.fixture
def call(url: str) -> Iterator[Call]:
    """A function that sends a case. One session: a new one would look for proxies and passwords at every call."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers.clear()  # what is sent is the case and nothing else
        yield lambda case, headers: case.call(base_url=url, headers=headers, session=session)


def test_every_answer_is_one_that_the_document_names(url: str, keys: Keys, call: Call) -> None:
    orchestrator = bearer(keys.make("orchestrator"))
    by_scope = {"orchestrator": orchestrator, "frontend": bearer(keys.make("frontend"))}
    with httpx.Client(base_url=url, verify=NOBODY) as client:
        for path in (f"/homes/{HOME}", f"/homes/{HOME}/members/{SENDER}", f"/homes/{HOME}/members/{RECIPIENT}"):
            assert client.put(path, json={}, headers=orchestrator).status_code == 204
        document = client.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    seen: set[tuple[str, int]] = set()

    for path, operations in document["paths"].items():
        for method in operations if path != STREAM else ():
            inputs = {"parameters", "requestBody"} & set(operations[method])
            headers = by_scope.get(_scope(operations[method]), {})
            for mode in GenerationMode if inputs else (GenerationMode.POSITIVE,):
                _fuzz(schema[path][method.upper()], mode, call, headers, seen)
    _fuzz_messages(schema["/rewrites"]["POST"], call, orchestrator, seen)
    _fuzz_reviews(schema["/reviews"]["POST"], call, orchestrator, seen)
    assert {("/rewrites", 202), ("/rewrites", 422), ("/homes/{home_id}", 204), ("/readyz", 200)} <= seen
    assert {("/items", 201), ("/items", 422), ("/items", 200), ("/items/{item_id}", 404)} <= seen
    assert {("/reviews", 202), ("/reviews", 200), ("/reviews", 422), ("/reviews/{review_id}", 404)} <= seen


def _scope(operation: dict[str, Any]) -> str:
    """The scope that an operation names; nothing for those that need no key."""
    found: list[str] = [scope for each in operation.get("security", ()) for scope in each["key"]]
    return "".join(found)


def _fuzz(
    operation: Any, mode: GenerationMode, call: Call, headers: dict[str, str], seen: set[tuple[str, int]]
) -> None:
    @CALM
    @given(case=operation.as_strategy(generation_mode=mode))
    def tried(case: Any) -> None:
        answer = call(case, headers)
        seen.add((operation.path, answer.status_code))
        case.validate_response(answer, checks=CHECKS)

    tried()


def _fuzz_messages(operation: Any, call: Call, headers: dict[str, str], seen: set[tuple[str, int]]) -> None:
    """Messages that reach the orchestrator, as home and people are known."""

    @CALM
    @given(case=operation.as_strategy())
    def tried(case: Any) -> None:
        case.body |= {"home_id": str(HOME), "sender_user_id": str(SENDER), "mentions": [str(RECIPIENT)]}
        answer = call(case, headers)
        seen.add((operation.path, answer.status_code))
        case.validate_response(answer, checks=CHECKS)

    tried()


def _fuzz_reviews(operation: Any, call: Call, headers: dict[str, str], seen: set[tuple[str, int]]) -> None:
    """Reviews of a changelist that can be, for people who can be told."""

    @CALM
    @given(case=operation.as_strategy())
    def tried(case: Any) -> None:
        case.body |= {"changelist_id": "shop:main", "recipients": [{"channel": "smtp", "address": "dev@example.org"}]}
        answer = call(case, headers)
        seen.add((operation.path, answer.status_code))
        case.validate_response(answer, checks=CHECKS)

    tried()
