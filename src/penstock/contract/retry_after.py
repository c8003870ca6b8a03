"""Reading an upstream's `Retry-After`, which is untrusted text (E-03, E-18)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]{10,}", re.ASCII)
_DATE_LENGTH: Final = 64
LONGEST: Final = timedelta(days=365)
ZERO: Final = timedelta(0)


def parse_retry_after(value: str, now: datetime | None) -> timedelta | None:
    """The wait that *value* asks for: seconds, or an HTTP date seen from *now*.

    A moment in the past is no wait. What is neither form is ignored, because
    a header is a hint and our own backoff stands.
    """
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return min(timedelta(seconds=float(text)), LONGEST)
    if _DIGITS.fullmatch(text):
        return LONGEST
    moment = http_date(text)
    if moment is None or now is None:
        return None
    return min(max(moment - now, ZERO), LONGEST)


def http_date(text: str) -> datetime | None:
    """An HTTP date in any of its three forms; None for anything else."""
    from email.utils import parsedate_to_datetime

    if not text.isascii() or len(text) > _DATE_LENGTH:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
