"""Finding the user's application by its name: `myproject.jobs:app`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from penstock.contract.errors import PenstockError, SettingsInvalid
from penstock.engine.app import Penstock
from penstock.telemetry.redaction import redact_stack

ATTRIBUTE = "app"


def find_app(target: str) -> Penstock:
    """Import the application that *target* names as `module:attribute`; `:app` may be left out."""
    module_name, _, attribute = target.partition(":")
    found: object = _import(module_name, target)
    for part in (attribute or ATTRIBUTE).split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise SettingsInvalid(
                f"module {module_name!r} has no {attribute or ATTRIBUTE!r}; name the application as module:attribute"
            ) from None
    if not isinstance(found, Penstock):
        raise SettingsInvalid(f"{target!r} is a {type(found).__name__}, not a Penstock application")
    return found


def _import(module_name: str, target: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module_name)
    except PenstockError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise SettingsInvalid(
                f"there is no module {module_name!r}, as {target!r} asks for; "
                "run from the directory that holds it, or install it"
            ) from None
        raise SettingsInvalid(f"importing {module_name!r} failed: it needs {error.name!r}, which is missing") from None
    except (Exception, SystemExit) as error:
        stack = redact_stack(error, messages=True)
        raise SettingsInvalid(f"importing {module_name!r} failed:\n{stack}") from None
