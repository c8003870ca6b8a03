"""Forms that several settings share."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from penstock.contract.places import is_host

MODEL: Final = r"^[a-z0-9_]{1,50}:[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}$"  # adapter:model
NO_DSN: Final = "is no URL such as postgresql://user:password@host:5432/database (several hosts: host1:5432,host2:5432)"


def as_names(value: object) -> object:
    """`a.example,b.example` is a list."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    bare = text.isascii() and text.isprintable() and not set(text) & set(" ?#@\\")
    return bare and parts.scheme in ("http", "https") and is_host(parts.hostname or "")


def as_url(value: str | None) -> str | None:
    """*value*, if a client can be pointed at it."""
    if value is not None and not _is_url(value):
        raise ValueError("must be a URL such as https://api.example.com, without a user, a query or a fragment")
    return value
