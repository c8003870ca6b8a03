"""Where a key may go.

A route comes with the job, and a job's base_url decides who gets the key: only
the provider's own host, this machine, and hosts that a setting names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.places import is_this_machine

if TYPE_CHECKING:
    from collections.abc import Collection


def checked_url(base_url: str | None, own: str, allowed: Collection[str] = ()) -> str:
    """*base_url*, or the provider's *own* where a route names none.

    Plain http is for this machine and for hosts that are *allowed*; a host of
    neither kind, and an address with a name, a query or a fragment in it, is
    `CONFIG_INVALID`: nothing is sent.
    """
    if not base_url:
        return own
    host, scheme = _host(base_url)
    if scheme not in ("https", "http") or not host:
        raise Failed(FailureClass.CONFIG_INVALID)
    if is_this_machine(host) or host in allowed or (scheme == "https" and host == _host(own)[0]):
        return base_url.rstrip("/")
    raise Failed(FailureClass.CONFIG_INVALID)


def _host(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "", ""
    plain = url.isascii() and url.isprintable() and not (parts.username or parts.password or parts.query)
    return (parts.hostname or "", parts.scheme) if plain and not parts.fragment and "@" not in url else ("", "")
