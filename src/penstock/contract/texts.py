"""Text that PostgreSQL stores and a terminal shows without harm (rule 10 of the faults)."""

from __future__ import annotations

import re
from typing import Final

_KEPT: Final = "\t\n"
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in _KEPT}
_ELLIPSIS: Final = "…"
_USERINFO: Final = re.compile(r"(://[^/?#\s:@]*:)\S*@")  # up to the last @: a password may hold / ? and #
_PASSWORD_SETTING: Final = re.compile(
    r"(\b(?:password|sslpassword|passfile)\s*=\s*)(?:'[^']*'|[^\s&']+)", re.IGNORECASE
)


def clean_text(text: str, limit: int) -> str:
    """*text* with NULs, other control characters and lone surrogates escaped, cut to *limit* characters.

    For what must reach the database whatever it holds: a result, an error
    message. A refusal there would leave a job that can never end.
    """
    if limit < 1:
        raise ValueError(f"a text is cut to at least 1 character, not {limit}")
    short = text[: limit + 1]
    if not (short.isascii() and short.isprintable()):
        short = short.encode("utf-8", "backslashreplace").decode("utf-8").translate(_ESCAPES)
    return short if len(short) <= limit else short[: limit - 1] + _ELLIPSIS


def is_text(text: str) -> bool:
    """Whether *text* can be written as UTF-8; bytes of the command line that are none arrive as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def mask_dsn(dsn: str) -> str:
    """*dsn* for people to read: the password, wherever it stands, is replaced by stars."""
    return _PASSWORD_SETTING.sub(r"\1***", _USERINFO.sub(r"\1***@", dsn))
