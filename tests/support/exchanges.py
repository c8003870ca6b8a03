"""What went over the wire between an adapter and a provider, and the shapes of it."""

from __future__ import annotations

import json
import re
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

_BASE = re.compile(r"^/(openai|anthropic|gemini)(?=/)")
_VERSION = re.compile(r"/v1(beta)?(?=/)")
_ID = re.compile(r"/(batches|files|models)/[^/:]+")
_KINDS = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}

Shape = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Exchange:
    """One request and its answer. Bodies that are no JSON object are None, files of results are *lines*."""

    operation: str  # provider, method and path: no version, and * for each id
    query: Mapping[str, Any]
    sent: Any
    status: int
    answered: Any
    lines: tuple[Any, ...] = ()


class Recorder(httpx2.AsyncBaseTransport):
    """The real network, remembered. *path* may lead a request elsewhere."""

    def __init__(self, provider: str, path: Callable[[str], str] = str) -> None:
        self.exchanges: list[Exchange] = []
        self._provider = provider
        self._path = path
        # All of it is plain HTTP on this machine: no certificate is worth the time to read it.
        self._network = httpx2.AsyncHTTPTransport(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        content = await request.aread()
        url = request.url.copy_with(path=self._path(request.url.path))
        sent = httpx2.Request(request.method, url, headers=request.headers, content=content)
        received = await self._network.handle_async_request(sent)
        body = await received.aread()
        await received.aclose()
        self.exchanges.append(self._exchange(request, content, received.status_code, body))
        return httpx2.Response(received.status_code, headers=received.headers.raw, content=body)

    async def aclose(self) -> None:
        await self._network.aclose()

    def _exchange(self, request: httpx2.Request, sent: bytes, status: int, answered: bytes) -> Exchange:
        name = operation(self._provider, request.method, request.url.path)
        query = {key: int(value) if value.isdigit() else value for key, value in request.url.params.items()}
        lines = tuple(map(json.loads, answered.splitlines())) if name.endswith(_RESULTS) and status == OK else ()
        return Exchange(name, query, _object(sent), status, None if lines else _object(answered), lines)


OK = 200
_RESULTS = ("/content", "/results", ":download")


def operation(provider: str, method: str, path: str) -> str:
    """What a request asks for, whichever server and version it goes to."""
    plain = _VERSION.sub("", _BASE.sub("", path), count=1)
    return f"{provider} {method} {_ID.sub(lambda found: f'/{found[1]}/*', plain)}"


def shape(values: Iterable[Any]) -> Shape:
    """The kinds of JSON that stand at each place of *values*: `choices[].index` is a number."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for value in values:
        for place, kind in _places(value, ""):
            found[place].add(kind)
    return {place: frozenset(kinds) for place, kinds in found.items()}


def lacking(theirs: Shape, ours: Shape) -> list[str]:
    """Where *ours* has nothing, or another kind of thing, in place of *theirs*; null goes with everything."""
    nothing = frozenset({"null"})
    problems = []
    for place, kinds in theirs.items():
        known = ours.get(place)
        if known is None:
            problems.append(f"{place}: {_words(kinds)}, ours has nothing")
        elif kinds - nothing and known - nothing and not (kinds & known) - nothing:
            problems.append(f"{place}: {_words(kinds)}, ours {_words(known)}")
    return problems


def _words(kinds: Iterable[str]) -> str:
    return " or ".join(sorted(kinds))


def _places(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield place, "object"
        for name, member in value.items():
            yield from _places(member, f"{place}.{name}")
    elif isinstance(value, list):
        yield place, "array"
        for member in value:
            yield from _places(member, f"{place}[]")
    else:
        yield place, _KINDS[type(value)]


def _object(content: bytes) -> Any:
    try:
        found = json.loads(content)
    except ValueError:  # nothing, a form, or bytes of a file
        return None
    return found if isinstance(found, dict) else None
