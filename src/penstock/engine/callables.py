"""What a function given by an application is, under its decorators and partials."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from penstock.contract.errors import SettingsInvalid


def layers(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Where `async` may stand: on the function, under its decorators, or on `__call__` of an object."""
    bare = inspect.unwrap(function)
    while isinstance(bare, functools.partial):
        bare = bare.func
    return function, bare, type(function).__call__


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling *function* gives something to await."""
    return any(map(inspect.iscoroutinefunction, layers(function)))


def refuse_callable(name: object, decorator: str) -> None:
    """`@app.job` without parentheses would swallow the handler and declare nothing."""
    if callable(name):
        found = getattr(name, "__name__", "name")
        raise SettingsInvalid(
            f"@app.{decorator} takes a name and got the function itself: write @app.{decorator}({found!r})"
        )
