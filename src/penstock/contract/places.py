"""Forms of what names a place on the network: mail addresses and hosts. Whether anybody is there, nobody knows yet."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{0,60}}", re.ASCII)
_MAIL: Final = re.compile(rf"(?P<local>{_ATOM}(?:\.{_ATOM})*)@(?P<domain>{_LABEL}(?:\.{_LABEL})*)", re.ASCII)
_NAMED: Final = re.compile(r"(?P<name>[^<>\"\\,;:@\x00-\x1f\x7f]{1,100}) <(?P<address>[^<>]{1,320})>")
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)
_LONGEST_LOCAL: Final = 64
_LONGEST_DOMAIN: Final = 253
_LONGEST_MAIL: Final = 254


def is_mail_address(text: str) -> bool:
    """Whether *text* is an address such as somebody@example.org: ASCII, no name, no quotes, no comment."""
    match = _MAIL.fullmatch(text)
    return (
        match is not None
        and len(text) <= _LONGEST_MAIL
        and len(match["local"]) <= _LONGEST_LOCAL
        and not _NUMBER.fullmatch(match["domain"].rpartition(".")[2])
    )


def mailbox(text: str) -> tuple[str, str] | None:
    """The name and the address in `Reviews <reviews@example.org>`, the name empty in a bare address; None: neither."""
    match = _NAMED.fullmatch(text)
    name, address = (match["name"].strip(), match["address"]) if match else ("", text)
    return (name, address) if is_mail_address(address) else None


def is_host(text: str) -> bool:
    """Whether *text* is a name or an address of a machine, without scheme, port or path."""
    return is_ip(text) or (
        len(text) <= _LONGEST_DOMAIN
        and _HOST.fullmatch(text) is not None
        and not _NUMBER.fullmatch(text.rpartition(".")[2])  # 127.1, 2130706433 and 0x7f000001 are this machine
    )


def is_ip(text: str) -> bool:
    """Whether *text* is an address in its usual form."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # a zone is of this machine


def is_this_machine(host: str) -> bool:
    """Whether *host* leads nowhere else."""
    return ip_address(host).is_loopback if is_ip(host) else host.lower().rstrip(".") == "localhost"
