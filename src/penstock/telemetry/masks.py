"""What is masked in a text, and by what.

Two passes: first what announces itself, as in `password=`, whatever quotes stand
around it; then what looks like a literal, a number of a person or a key. It
masks too much rather than too little.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.contract.texts import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT_LIMIT: Final = 1000
_READ: Final = 16_384  # characters of input that are looked at
_SHORT_LITERAL: Final = 16
_NAME_LITERAL: Final = 40

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z_.]*", re.ASCII)
_PREFIXED: Final = (  # how providers begin their keys
    r"(?:(?:sk|pk|rk|re|whsec|gh[opusr]|glpat|github_pat|xox[a-z]|hf|npm|sg|ya29)[-_.]|(?-i:AKIA|ASIA|AIza|eyJ))"
    r"[a-z0-9+/=_.-]{10,}"
)
_HIDDEN: Final = re.compile(rf"(?:\b|_){_PREFIXED}", re.IGNORECASE)
_MIXED: Final = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])", re.ASCII)

# Tried where a word begins and nowhere inside it: a long word costs no more than its length.
_ADDRESS: Final = r"""(?<![^\s@<>()\[\]"',;:=])[^\s@<>()\[\]"',;:=]+@[^\s@<>()\[\]"',;:=?&]+"""
_EMAIL: Final = re.compile(_ADDRESS)

# First by sign: what announces itself. Leftmost first; on a tie the earlier line wins. The group's name picks the mask.
_BY_SIGN: Final = re.compile(
    r"(?P<prefixed>\b"
    + _PREFIXED
    + r""")
    | (?P<key>-----BEGIN[ ][A-Z ]+-----.*?(?:-----END[ ][A-Z ]+-----|\Z))
    | (?P<detail>\b(?:DETAIL|CONTEXT|QUERY|STATEMENT|PARAMETERS|invalid[ ](?:input|literal)[^\n:]{0,80}):[^\n]*)
    | (?P<values>=\s?\([^)]*\)?)                                              # Key (name)=(value)
    | (?P<url>[a-z][a-z0-9+.-]{1,30}://[^\s'"<>]+)
    | (?P<bearer>\b(?:Bearer|Basic|Token|Digest)\s+[^\s'",;]{6,})
    | (?P<secret>["']?(?<![\w.-])[\w.-]{0,40}
        (?:pass(?:word|wd|phrase|file)?|pwd|secret|token|(?:api|access|private|signing)[_-]?key|authorization
          |credentials?|cookie|session(?:[_-]?id)?|signature|input_value|dsn)[\w-]{0,20}
        ["']?\s*(?:=>|[:=])\s*(?:(?:Bearer|Basic|Token|Digest)\s+)?
        (?:"[^"]*"?|'[^']*'?|[^\s,;&)\]}]+))
    | (?P<email>"""
    + _ADDRESS
    + r""")
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)

# Then by look. A quote opens where no word ends and closes where no word goes on, so that an apostrophe does neither;
# one that never closes runs to the end.
_BY_LOOK: Final = re.compile(
    r"""
      (?P<uuid>(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-]))
    | (?P<quoted>(?:(?<!\w)|(?<=\b[bruf]))(?P<mark>['"`])(?P<inner>(?:(?!(?P=mark)(?!\w)).)*)(?:(?P=mark)|\Z))
    | (?P<number>(?<![\w.-])(?!\d{4}-\d\d-\d\d)\+?\(?\d(?:[\s().-]{0,2}\d){6,}(?![\w-]))
    | (?P<token>[a-z0-9+/_.~-]{20,}={0,2})
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def redact_text(text: str, limit: int = TEXT_LIMIT) -> str:
    """*text* with everything masked that may be a secret or a person's, cut to *limit* characters."""
    return clean_text(_mask(_shortened(text)), limit)


def _shortened(text: str) -> str:
    """The part that is looked at; a last word cut in two might be half a key, so it goes."""
    if len(text) <= _READ:
        return text
    head, _, _ = text[:_READ].rpartition(" ")
    return f"{head or '[text]'} [cut]"


def _mask(text: str) -> str:
    signs = _BY_SIGN.sub(_replacement, text)
    return _by_look(_EMAIL.sub("[email]", signs))  # again: a word may begin where something was masked


def _by_look(text: str) -> str:
    return _BY_LOOK.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    kind = match.lastgroup
    return _literal(match) if kind == "quoted" else _MASKS[str(kind)](match[0])


def _literal(match: re.Match[str]) -> str:
    """A short literal or a plain name may stay, without what is sensitive inside it."""
    mark, inner = match["mark"], match["inner"]
    close = mark if match[0].endswith(mark) and len(match[0]) > 1 else ""
    named = len(inner) <= _NAME_LITERAL and _IDENTIFIER.fullmatch(inner)
    shown = _by_look(inner) if named or len(inner) <= _SHORT_LITERAL else f"[text of {len(inner)}]"
    return f"{mark}{shown}{close}"


def _url(text: str) -> str:
    """Scheme, host and port; user, path and query may each carry a secret."""
    scheme, _, rest = text.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, host = authority.rpartition("@")
    shown = host if re.fullmatch(r"[\w.:,\[\]-]{1,200}", host, re.ASCII) else "[host]"
    masked = "[credentials]@" if at or user else ""
    return f"{scheme}://{masked}{shown}{'/[path]' if len(rest) > len(authority) + 1 else ''}"


def _secret(text: str) -> str:
    name = re.split(r"[\"'\s:=]", text.lstrip("\"'"), maxsplit=1)[0]
    return f"{name}=[secret]"


def _token(text: str) -> str:
    """Long runs with letters and digits are keys or hashes; a long plain word is not."""
    telling = _MIXED.match(text) or _HIDDEN.search(text) or len(text) > 2 * _NAME_LITERAL
    return "[token]" if telling else text


_MASKS: Final[dict[str, Callable[[str], str]]] = {
    "uuid": str,
    "key": lambda _: "[key]",
    "detail": lambda text: f"{text.partition(':')[0]}: [detail]",
    "values": lambda _: "=([values])",
    "url": _url,
    "bearer": lambda text: f"{text.split()[0]} [token]",
    "secret": _secret,
    "email": lambda _: "[email]",
    "prefixed": lambda _: "[token]",
    "number": lambda _: "[number]",
    "token": _token,
}
