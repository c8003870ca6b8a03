"""Which addresses a message may go to, and which parts of the network a webhook may reach.

A recipient comes from outside, and a webhook goes where it says: without these
rules it would go to a metadata service or to the neighbour behind the
firewall. A name is judged by every address it resolves to, when it is used;
an address that stands in the URL itself is judged when the review is created.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.contract.errors import RecipientInvalid
from penstock.contract.places import is_host, is_ip, is_mail_address, is_this_machine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Python's is_global changes with its version, so the registries of IANA stand here; 168.63.129.16 is Azure's own.
_NOT_PUBLIC_4: Final = tuple(map(IPv4Network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)))  # fmt: skip
_GLOBAL_6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(map(IPv6Network, (
    "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",  # Teredo and 6to4 carry an IPv4 address that nobody checks
)))  # fmt: skip
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LONGEST: Final = 500
_PLAIN: Final = "http"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook goes, taken apart."""

    scheme: str
    host: str
    port: int


def checked_mail(address: str) -> str:
    """*address* without the blanks around it, if a mail can be sent to it."""
    plain = address.strip()
    if not is_mail_address(plain):
        raise RecipientInvalid(
            "a recipient is no mail address; give it as somebody@example.org: no name before it, "
            "ASCII before the @, an international domain in its xn-- form"
        )
    return plain


def checked_webhook(url: str, allowed: Collection[Network] = ()) -> str:
    """*url* without the blanks around it, if a webhook may go there as far as its text tells."""
    plain = url.strip()
    target = target_of(plain)
    literal = literal_of(target.host)
    if literal is not None and not admitted(literal, allowed):
        raise RecipientInvalid(
            "the webhook of a recipient leads to an address that is not public; "
            "name its network in PENSTOCK_WEBHOOK_ALLOW if webhooks may go there"
        )
    if target.scheme == _PLAIN and not _may_be_plain(literal, allowed):
        raise RecipientInvalid(
            "the webhook of a recipient is not https; plain http goes only to networks named in PENSTOCK_WEBHOOK_ALLOW"
        )
    return plain


def target_of(url: str) -> Target:
    """*url* taken apart; what is no plain address of a web server is refused."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _no_url() from None
    host = (parts.hostname or "").rstrip(".")
    readable = url.isascii() and url.isprintable() and not set(url) & set(' \\"<>^`{|}#') and len(url) <= _LONGEST
    plain = "@" not in parts.netloc and ("[" in parts.netloc) is (":" in host)  # brackets are for IPv6 and for nobody
    if not (readable and plain and parts.scheme in (_PLAIN, "https") and port != 0 and is_host(host)):
        raise _no_url()
    return Target(parts.scheme, host, port or (80 if parts.scheme == _PLAIN else 443))


def literal_of(host: str) -> Address | None:
    """The address that *host* is, without asking anybody; None: it is a name."""
    if is_ip(host):
        return ip_address(host)
    named_here = is_this_machine(host) or host.lower().endswith(".localhost")
    return IPv4Address("127.0.0.1") if named_here else None


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks of a setting, which has checked them."""
    return tuple(ip_network(text) for text in texts)


def admitted(address: Address, allowed: Collection[Network] = ()) -> bool:
    """Whether a webhook may connect to *address*: it is public, or somebody has allowed its network."""
    real = _carried(address)
    return is_public(address) or is_allowed(real, allowed)


def is_allowed(address: Address, allowed: Collection[Network]) -> bool:
    """Whether *address* is one machine of a network that somebody has named."""
    real = _carried(address)
    one = not (real.is_multicast or real.is_unspecified)
    return one and any(real.version == network.version and real in network for network in allowed)


@lru_cache(maxsize=1024)
def is_public(address: Address) -> bool:
    """Whether *address* is one machine on the open internet, also inside the wrapping that IPv6 has for IPv4."""
    real = _carried(address)
    if isinstance(real, IPv4Address):
        return not any(real in network for network in _NOT_PUBLIC_4)
    return real in _GLOBAL_6 and not any(real in network for network in _NOT_PUBLIC_6)


def _carried(address: Address) -> Address:
    """The IPv4 address that a mapped or a translated one leads to; any other is itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _may_be_plain(literal: Address | None, allowed: Collection[Network]) -> bool:
    return bool(allowed) if literal is None else is_allowed(literal, allowed)


def _no_url() -> RecipientInvalid:
    return RecipientInvalid(
        "the webhook of a recipient is no URL such as https://hooks.example.org/reviews; "
        "it has no user, no fragment and at most 500 ASCII characters"
    )
