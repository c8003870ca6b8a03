"""Which adapter serves a route: one client per kind, address and key, kept open.

A kind that nobody knows, a key that is not set, an SDK that is not installed
and an address a key may not go to are `CONFIG_INVALID`: nothing is sent
anywhere, least of all to another provider (Q-71). What to do about it is told
by `problem`, which never shows a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Protocol, cast

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.providers.endpoints import checked_url

if TYPE_CHECKING:
    from collections.abc import Collection

    import httpx2

    from penstock.contract.calls import Route
    from penstock.providers.port import Adapter, BatchAdapter


@dataclass(frozen=True, slots=True)
class _Kind:
    provider: str  # whose key it is, and the name of its extra
    package: str
    module: str
    name: str
    client: str
    url: str


OPENAI_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com"
GEMINI_URL: Final = "https://generativelanguage.googleapis.com"

KINDS: Final[Mapping[str, _Kind]] = {
    "openai_responses": _Kind("openai", "openai", "openai_responses", "OpenAIResponses", "openai_client", OPENAI_URL),
    "openai_chat": _Kind("openai", "openai", "openai_chat", "OpenAIChat", "openai_client", OPENAI_URL),
    "gemini_generate": _Kind(
        "gemini", "google.genai", "gemini_generate", "GeminiGenerate", "gemini_client", GEMINI_URL
    ),
    "anthropic_messages": _Kind(
        "anthropic", "anthropic", "anthropic_messages", "AnthropicMessages", "anthropic_client", ANTHROPIC_URL
    ),
}
_PROVIDERS: Final = frozenset(kind.provider for kind in KINDS.values())
_ALIASES: Final[Mapping[str, str]] = {"google": "gemini"}


class ProviderSettings(Protocol):
    """The part of the settings that adapters need."""

    @property
    def provider_hosts(self) -> tuple[str, ...]:
        """Hosts beside the providers' own that may get a key."""

    def provider_keys(self) -> dict[str, str]:
        """The keys that are set, by provider."""


@dataclass(frozen=True, slots=True)
class _Address:
    adapter: str
    base_url: str | None
    owner: str | None  # whose key it takes; a vendor that speaks another's API has a key of its own


class Adapters:
    """Every adapter of a process: from the settings, or from keys by provider with *hosts* that may get them."""

    def __init__(
        self,
        keys: Mapping[str, str] | ProviderSettings,
        *,
        hosts: Collection[str] = (),
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        given = keys if isinstance(keys, Mapping) else keys.provider_keys()
        self._keys = {provider: key for provider, key in given.items() if key}
        self._hosts = frozenset(hosts if isinstance(keys, Mapping) else keys.provider_hosts)
        self._transport = transport
        self._open: dict[tuple[str, str, str], BatchAdapter] = {}

    def __repr__(self) -> str:
        return f"Adapters(keys for {', '.join(sorted(self._keys)) or 'nobody'})"

    def get(self, kind: Route | str, base_url: str | None = None) -> BatchAdapter:
        """The adapter of a route, or of a kind at an address, made at its first use."""
        address = _address(kind, base_url)
        problem = self._problem(address)
        if problem is not None:
            raise Failed(FailureClass.CONFIG_INVALID, problem)
        made = KINDS[address.adapter]
        key, url = self._keys[address.owner or made.provider], checked_url(address.base_url, made.url, self._hosts)
        known = self._open.get((address.adapter, url, key))
        if known is None:
            known = self._open[address.adapter, url, key] = self._make(made, key, url)
        return known

    def knows(self, kind: str) -> bool:
        """Whether there is an adapter of this kind at all, whatever it lacks here."""
        return kind in KINDS

    def problem(self, kind: Route | str, base_url: str | None = None) -> str | None:
        """Why there is no adapter for this, and what to do next; None when there is one. Shows no key."""
        return self._problem(_address(kind, base_url))

    def _problem(self, address: _Address) -> str | None:
        kind = KINDS.get(address.adapter)
        if kind is None:
            return f"there is no adapter {address.adapter!r}; choose one of {', '.join(sorted(KINDS))}"
        owner = address.owner or kind.provider
        if owner != kind.provider and (owner in _PROVIDERS or not address.base_url):
            return f"adapter {address.adapter} does not lead to {owner}; give the route an adapter of {owner}"
        if owner not in self._keys:
            return f"adapter {address.adapter} has no key; set PENSTOCK_{kind.provider.upper()}_API_KEY"
        if not all(_installed(package) for package in (kind.package, "jsonschema_rs")):
            return f"adapter {address.adapter} needs its SDK; install penstock[{kind.provider}]"
        return self._address_problem(address, kind)

    def _address_problem(self, address: _Address, kind: _Kind) -> str | None:
        try:
            checked_url(address.base_url, kind.url, self._hosts)
        except Failed:
            return (
                f"the base_url of adapter {address.adapter} is neither {kind.provider}'s own over https nor on this "
                "machine; name its host in PENSTOCK_PROVIDER_HOSTS if the key may go there"
            )
        return None

    def _make(self, kind: _Kind, key: str, url: str) -> BatchAdapter:
        clients = import_module("penstock.providers.clients")
        client = getattr(clients, kind.client)(key, url, self._transport)
        made = getattr(import_module(f"penstock.providers.{kind.module}"), kind.name)(client)
        return cast("BatchAdapter", made)

    async def close(self) -> None:
        """Close every client; the next `get` opens a new one."""
        adapters: list[Adapter] = list(self._open.values())
        self._open.clear()
        for adapter in adapters:
            await adapter.close()


def _address(kind: Route | str, base_url: str | None) -> _Address:
    if isinstance(kind, str):
        return _Address(kind, base_url, None)
    return _Address(kind.adapter, kind.base_url, _ALIASES.get(kind.provider, kind.provider))


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False
