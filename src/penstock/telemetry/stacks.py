"""A stack that can be shown: types, frames and codes, rebuilt and not copied (E-28, E-31).

A formatted traceback quotes source lines and messages; this one is put
together from names alone. Messages are added only when the type's policy
allows them, and then masked.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.contract.failure_signals import http_status, sqlstate
from penstock.contract.texts import clean_text
from penstock.telemetry.masks import redact_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

STACK_LIMIT: Final = 8000
MESSAGE_LIMIT: Final = 300
_FRAMES: Final = 20  # of one error, the innermost ones
_ERRORS: Final = 12  # of one chain, groups included
_NAME: Final = re.compile(r"[\w.<>]{1,100}", re.ASCII)
_MODULE: Final = re.compile(r"\w+(?:\.\w+)*", re.ASCII)
_FILE: Final = re.compile(r"[\w.-]{1,80}|<[\w. -]{1,60}>", re.ASCII)


def redact_stack(error: BaseException, *, messages: bool, limit: int = STACK_LIMIT) -> str:
    """The chain of errors behind *error*, newest first, fit to be stored and shown.

    With *messages* off not a word of any exception's message appears: that is
    the rule for types whose text is private (C-52). Of an error that raises
    when it is looked at only the type is told.
    """
    try:
        lines = list(_lines(error, messages=messages))
    except BaseException:
        lines = [type_name(error)]
    return clean_text("\n".join(lines), limit)


def _lines(error: BaseException, *, messages: bool) -> Iterator[str]:
    for link, member in _chain(error):
        yield f"{link}{_headline(member, messages=messages)}"
        yield from _frames(member)


def _chain(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """Each error once, with the words that tie it to the one before."""
    waiting: deque[tuple[str, BaseException]] = deque([("", error)])
    seen: set[int] = set()
    while waiting and len(seen) < _ERRORS:
        link, member = waiting.popleft()
        if id(member) in seen:
            continue
        seen.add(id(member))
        yield link, member
        if isinstance(member, BaseExceptionGroup):
            waiting.extend(("one of them: ", inner) for inner in member.exceptions[:_ERRORS])
        if member.__cause__ is not None:
            waiting.append(("caused by: ", member.__cause__))
        elif member.__context__ is not None and not member.__suppress_context__:
            waiting.append(("while handling: ", member.__context__))


def _headline(error: BaseException, *, messages: bool) -> str:
    words = [type_name(error)]
    state, status = sqlstate(error), http_status(error)
    if state is not None:
        words.append(f"[SQLSTATE {state}]")
    elif status is not None:
        words.append(f"[status {status}]")
    message = redact_text(message_of(error), MESSAGE_LIMIT) if messages else ""
    return f"{' '.join(words)}: {message}" if message else " ".join(words)


def type_name(error: BaseException) -> str:
    """The error's type with its module, as in `httpx.ReadTimeout`."""
    kind = type(error)
    try:
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    except Exception:  # a metaclass may do anything
        return "Exception"
    return name if _NAME.fullmatch(name) else "Exception"


def message_of(error: BaseException) -> str:
    """What the error says; nothing where it refuses to."""
    try:
        return str(error)
    except Exception:
        return ""


def _frames(error: BaseException) -> list[str]:
    found: deque[str] = deque(maxlen=_FRAMES)
    total, step = 0, error.__traceback__
    while step is not None:
        total += 1
        found.append(f"  at {_file(step.tb_frame)}:{step.tb_lineno} in {_function(step.tb_frame)}")
        step = step.tb_next
    hidden = total - len(found)
    return [f"  ({hidden} outer frames)", *found] if hidden else list(found)


def _file(frame: FrameType) -> str:
    """The file as seen from its package, so that no directory of this machine shows."""
    file = frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    if not _FILE.fullmatch(file):
        return "?"
    module = str(frame.f_globals.get("__name__", ""))
    if file.startswith("<") or not _MODULE.fullmatch(module) or len(module) > 100:  # noqa: PLR2004 - as _NAME
        return file
    packages = module.split(".") if file == "__init__.py" else module.split(".")[:-1]
    return "/".join([*packages, file])


def _function(frame: FrameType) -> str:
    name = frame.f_code.co_qualname
    return name if _NAME.fullmatch(name) else "?"
