"""Whether a value is of the kind that a policy wants, told where it is written and not when a job fails over it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

_ARTICLES: Final = {int: "a whole number", bool: "True or False", str: "a text", timedelta: "a timedelta"}


def refuse_unless_kind(
    what: str, value: object, *kinds: type, none: bool = False, hint: Callable[[Any], str] | None = None
) -> None:
    """Raise `SettingsInvalid` when *value* is of none of *kinds*; *hint* says what to write instead.

    True is no number here: Python counts it as one, and nobody means it.
    """
    if (none and value is None) or (isinstance(value, kinds) and (type(value) is not bool or bool in kinds)):
        return
    wanted = " or ".join([*(_ARTICLES.get(kind, f"a {kind.__name__}") for kind in kinds), *(["None"] if none else [])])
    advice = hint(value) if hint is not None else _advice(value, kinds)
    raise SettingsInvalid(f"{what} is {wanted}, not {type(value).__name__}{advice and ': write '}{advice}")


def as_rate(value: object) -> str:
    """What to write for a rate."""
    count = value if type(value) is int else 10
    return f"Rate({count}, timedelta(seconds=1)) for {count} starts a second"


def as_limits(value: object) -> str:
    """What to write for limits."""
    return f"Limits(running={value if type(value) is int else 10})"


def as_breaker(value: object) -> str:
    """What to write for a breaker."""
    return f"Breaker(after={value if type(value) is int else 3})"


def as_backoff(value: object) -> str:
    """What to write for a backoff."""
    delays = list(value) if isinstance(value, list | tuple) else [value if isinstance(value, int | float) else 60]
    return f"Schedule({delays}) for delays in seconds, or FullJitter()"


def as_stages(value: object) -> str:
    """What to write for stages: a text would be taken as letters."""
    return f'("{value}",) for one stage' if isinstance(value, str) else '("fetch", "notify")'


def as_delays(value: object) -> str:
    """What to write for the delays of a schedule."""
    return f"Schedule([{value if isinstance(value, int | float) else 60}])"


def _advice(value: object, kinds: tuple[type, ...]) -> str:
    """What was probably meant; empty where nobody can know."""
    if timedelta in kinds and isinstance(value, int | float) and type(value) is not bool:
        return f"timedelta(seconds={value!r})"
    if int in kinds and isinstance(value, str) and value.strip().isdecimal():
        return value.strip()
    return ""
