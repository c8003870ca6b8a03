"""Which adapter serves a route: one client per kind, address and key, kept open.

A kind that nobody knows, a key that is not set, an SDK that is not installed
and an address a key may not go to are `CONFIG_INVALID`: nothing is sent
anywhere, least of all to another provider (Q-71). What to do about it is told
by `problem`, which never shows a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, cast

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.providers.endpoints import checked_url

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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


class Adapters:
    """Every adapter of a process. *keys* by provider; *hosts* beside the providers' own may get them too."""

    def __init__(
        self,
        keys: Mapping[str, str],
        *,
        hosts: Collection[str] = (),
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._keys = {provider: key for provider, key in keys.items() if key}
        self._hosts = frozenset(hosts)
        self._transport = transport
        self._open: dict[tuple[str, str, str], BatchAdapter] = {}

    def __repr__(self) -> str:
        return f"Adapters(keys for {', '.join(sorted(self._keys)) or 'nobody'})"

    def get(self, route: Route) -> BatchAdapter:
        """The adapter of *route*, made at its first use."""
        if self.problem(route) is not None:
            raise Failed(FailureClass.CONFIG_INVALID)
        kind = KINDS[route.adapter]
        key, url = self._keys[_owner(route)], self._url(route, kind)
        known = self._open.get((route.adapter, url, key))
        if known is None:
            known = self._open[route.adapter, url, key] = self._make(kind, key, url)
        return known

    def problem(self, route: Route) -> str | None:
        """Why *route* cannot be served, and what to do next; None when it can. Shows no key."""
        kind = KINDS.get(route.adapter)
        if kind is None:
            return f"there is no adapter {route.adapter!r}; choose one of {', '.join(sorted(KINDS))}"
        owner = _owner(route)
        if owner != kind.provider and (owner in _PROVIDERS or not route.base_url):
            return f"adapter {route.adapter} does not lead to {route.provider}; give the route {owner}'s own adapter"
        if owner not in self._keys:
            return f"adapter {route.adapter} has no key; set PENSTOCK_{kind.provider.upper()}_API_KEY"
        if not all(_installed(package) for package in (kind.package, "jsonschema_rs")):
            return f"adapter {route.adapter} needs its SDK; install penstock[{kind.provider}]"
        return self._address_problem(route, kind)

    def _address_problem(self, route: Route, kind: _Kind) -> str | None:
        try:
            self._url(route, kind)
        except Failed:
            return (
                f"the base_url of adapter {route.adapter} is neither {kind.provider}'s own over https nor on this "
                "machine; name its host in PENSTOCK_PROVIDER_HOSTS if the key may go there"
            )
        return None

    def _url(self, route: Route, kind: _Kind) -> str:
        return checked_url(route.base_url, kind.url, self._hosts)

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


def _owner(route: Route) -> str:
    """Whose key a route takes; a vendor that speaks another's API has a key of its own."""
    return _ALIASES.get(route.provider, route.provider)


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False
