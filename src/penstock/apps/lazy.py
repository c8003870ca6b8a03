"""Packages of applications that load nothing before it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock import lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazily(package: str, here: Mapping[str, str], application: str) -> Callable[[str], Any]:
    """The `__getattr__` of *package*: *here* says which module holds a name.

    `app` is the engine's application of what the function *application* of the
    module `application` returns, built from the environment at that moment.
    """
    named = lazy.lazily(package, here)

    def get(name: str) -> Any:
        if name == "app":
            return getattr(import_module(f"{package}.application"), application)().app
        return named(name)

    return get
