"""DSNs: URLs of a database, which may name several servers of one cluster.

`postgresql://user:password@first:5432,second:5433/database?target_session_attrs=read-write`
leads to whichever of the two takes writes. The servers are named behind the @ or
in `host=` and `port=`, each with a port of its own or all with one.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

PORT: Final = 5432
_SCHEMES: Final = ("postgresql", "postgres")
_PORTS: Final = range(1, 65_536)


def is_postgres_url(text: str) -> bool:
    """Whether *text* is a URL of a database; what a password with a raw / would break is none."""
    try:
        scheme = urlsplit(text).scheme
        servers(text)
    except ValueError:
        return False
    return scheme in _SCHEMES and text.startswith(f"{scheme}://") and text.isprintable()


def servers(dsn: str) -> list[tuple[str, int]]:
    """Every (host, port) that *dsn* names, in order; none where the driver's own default holds.

    What is no port raises `ValueError`, without the text around it.
    """
    parts = urlsplit(dsn)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    ports = [_port(port) for port in options.get("port", "").split(",") if port]
    places = parts.netloc.rpartition("@")[2]
    if places:
        found = [_place(unquote(place)) for place in places.split(",")]
    else:
        found = [_place(place) for place in options.get("host", "").split(",") if place]
    if len(ports) > 1 and len(ports) != len(found):
        raise ValueError("there are not as many ports as hosts")
    own = ports * len(found) if len(ports) == 1 else ports or [PORT] * len(found)
    return [(host, port or general) for (host, port), general in zip(found, own, strict=False) if host]


def option(dsn: str, name: str) -> str | None:
    """The value of *name* behind the ?."""
    values = parse_qs(urlsplit(dsn).query).get(name)
    return values[-1] if values else None


def _place(text: str) -> tuple[str, int | None]:
    """Host and port of `host:5432`, `[::1]:5432` or `/a/directory`."""
    if text.startswith("/"):
        return text, None
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError("an address in brackets is not closed")
        return host, _port(rest[1:]) if rest[1:] else None
    host, _, port = text.partition(":")
    return host, _port(port) if port else None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) in _PORTS):
        raise ValueError("a port is a number up to 65535")
    return int(text)
