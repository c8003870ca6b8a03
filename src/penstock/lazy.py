"""Packages that load nothing before it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazily(package: str, here: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of *package*: *here* says which of its modules holds a name."""

    def get(name: str) -> Any:
        if name in here:
            return getattr(import_module(f"{package}.{here[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
