"""From a route to its adapter, and what is refused on the way."""

from __future__ import annotations

import pytest

from penstock.contract.calls import Route
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass as F
from penstock.providers import registry
from penstock.providers.registry import Adapters
from penstock.settings import load_settings
from tests.providers.kinds import Kind, each_kind
from tests.providers.support import KEY, Script, adapters, answer, request


def route(adapter: str = "openai_responses", provider: str = "openai", base_url: str | None = None) -> Route:
    return Route(provider=provider, model="m", adapter=adapter, base_url=base_url)


def refused(found: Adapters, asked: Route) -> str:
    with pytest.raises(Failed) as raised:
        found.get(asked)
    assert raised.value.error_class is F.CONFIG_INVALID
    problem = found.problem(asked)
    assert problem is not None
    assert KEY not in problem
    return problem


@each_kind
async def test_one_adapter_per_kind_and_address_is_made_once_and_closed(kind: Kind) -> None:
    found = adapters(Script({kind.path: answer(kind.good("x"))}))
    asked = request(kind.name).route
    first = found.get(asked)
    assert found.get(asked) is first is found.get(kind.name)
    assert found.get(request(kind.name, base_url="http://127.0.0.1:1").route) is not first
    assert (first.kind, first.supports_micro_batch) == (kind.name, False)
    await found.close()
    assert found.get(asked) is not first
    await found.close()


def test_a_kind_nobody_knows_is_refused_by_name() -> None:
    assert "'telepathy'" in refused(adapters(Script()), route("telepathy"))


def test_a_missing_key_names_the_setting_to_set() -> None:
    assert "set PENSTOCK_GEMINI_API_KEY" in refused(Adapters({"openai": KEY}), route("gemini_generate", "gemini"))
    assert "set PENSTOCK_OPENAI_API_KEY" in refused(Adapters({"openai": ""}), route())


def test_an_sdk_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda package: None)
    assert "install penstock[openai]" in refused(adapters(Script()), route())


@pytest.mark.contract("Q-71")
def test_a_route_to_one_provider_is_never_served_by_another() -> None:
    for asked in (route("openai_chat", "anthropic"), route("anthropic_messages", "openai"), route(provider="acme")):
        assert "does not lead to" in refused(adapters(Script()), asked)


@pytest.mark.contract("Q-71")
async def test_a_provider_that_is_down_is_the_only_one_that_is_asked() -> None:
    script = Script({"*": answer({}, 503)})
    found = adapters(script)
    asked = request("openai_responses")
    with pytest.raises(Failed):
        await found.get(asked.route).call(asked, seconds=5)
    assert [one.url.host for one in script.requests] == ["api.openai.com"]


def test_a_vendor_with_a_key_of_its_own_may_speak_anothers_api() -> None:
    found = Adapters({"acme": KEY, "openai": "other"}, hosts=["llm.acme.example"])
    assert found.get(route(provider="acme", base_url="https://llm.acme.example/v1")).kind == "openai_responses"
    assert found.get(Route(provider="openai", model="m", adapter="openai_chat")).kind == "openai_chat"


def test_google_is_gemini() -> None:
    assert adapters(Script()).get(route("gemini_generate", "google")).provider == "gemini"


@pytest.mark.parametrize(
    "base_url",
    [
        "https://api.openai.com/v1",
        "http://127.0.0.1:8080/v1",
        "http://localhost:8080",
        "http://[::1]:8080/v1/",
        "https://gateway.example/v1",
        "http://gateway.example/v1",
    ],
)
def test_a_key_goes_to_its_provider_to_this_machine_and_to_hosts_that_are_named(base_url: str) -> None:
    Adapters({"openai": KEY}, hosts=["gateway.example"]).get(route(base_url=base_url))


@pytest.mark.parametrize(
    "base_url",
    [
        "http://api.openai.com/v1",
        "https://evil.example/v1",
        "https://api.openai.com@evil.example/v1",
        "https://api.openai.com.evil.example/v1",
        "https://user:pw@api.openai.com/v1",
        "https://127.0.0.1.evil.example",
        "ftp://127.0.0.1/v1",
        "api.openai.com",
        "https://",
        "https://api.openai.com:99999/v1",
        "https://api.openai.com/v1?x=1",
        "https://api.openai.com/v1#x",
        "http://[::1",
        "https://\u0430pi.openai.com/v1",
    ],
)
def test_a_key_goes_nowhere_else(base_url: str) -> None:
    assert "PENSTOCK_PROVIDER_HOSTS" in refused(adapters(Script()), route(base_url=base_url))


def test_no_key_is_in_a_repr_or_in_the_settings() -> None:
    settings = load_settings(openai_api_key=KEY, provider_hosts="Gateway.example, other.example")
    found = Adapters(settings)
    assert settings.provider_hosts == ("gateway.example", "other.example")
    for shown in (repr(settings), str(settings), repr(found), str(found), settings.model_dump_json()):
        assert KEY not in shown
    assert found.get(route(base_url="http://other.example")).kind == "openai_responses"
    assert settings.provider_keys() == {"openai": KEY}


async def test_the_environment_of_the_sdks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://evil.example")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://evil.example")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "https://evil.example")
    for name in ("openai_responses", "gemini_generate", "anthropic_messages"):
        script = Script({"*": answer({}, 500)})
        asked = request(name)
        with pytest.raises(Failed):
            await adapters(script).get(asked.route).call(asked, seconds=5)
        assert script.requests[0].url.host != "evil.example"
