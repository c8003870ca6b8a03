"""Reading the settings from the environment, once, and explaining what does not fit.

A refusal names the variable, the rule and the next step, and never repeats
what may be a secret.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

from pydantic import ValidationError

from penstock.contract.dsns import is_postgres_url
from penstock.contract.errors import SettingsInvalid
from penstock.settings.forms import NO_DSN
from penstock.settings.model import DSNS, KEYS, PREFIX, Settings

_PRIVATE: Final = ("mail_from", "resend_url", "review_model_url", "smtp_host", "smtp_username")
_SECRET: Final = frozenset({"prices", "rewrite_routes", "review_sources", *_PRIVATE, *DSNS, *KEYS})
_HARMLESS: Final = re.compile(r"[-+0-9.,eE]{1,20}|[a-z_]{1,16}", re.ASCII)


def load_settings(**overrides: Any) -> Settings:
    """Read the environment; *overrides* go before it, None leaves a setting alone.

    What does not fit is refused with the variable, the rule and the next step.
    The refusal is raised outside the `except`, because pydantic's own error
    still holds the input.
    """
    settings, problems = _read({name: value for name, value in overrides.items() if value is not None})
    if settings is None:
        raise SettingsInvalid("; ".join(problems))
    return settings


def read_dsn(variable: str) -> str | None:
    """The DSN in a *variable* that one command alone reads, checked as those of the settings are; None: unset."""
    value = os.environ.get(variable) or None
    if value is not None and not is_postgres_url(value):
        raise SettingsInvalid(f"{variable} {NO_DSN}; mend it, or unset it")
    return value


def _read(given: dict[str, Any]) -> tuple[Settings | None, list[str]]:
    try:
        return Settings(**{**_environment(), **given}), []
    except ValidationError as error:
        return None, [_explain(found) for found in error.errors(include_url=False, include_context=False)]
    except SettingsInvalid as error:
        return None, [str(error)]


def _environment() -> dict[str, str]:
    """What the environment says, as pydantic-settings would read it, without its many sources: 1 MB less."""
    given = {name.upper(): value for name, value in os.environ.items() if value}
    variables = {name: f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    return {name: given[variable] for name, variable in variables.items() if variable in given}


def _explain(found: Any) -> str:
    """One of pydantic's findings in our words; a value is repeated only where it can be no secret."""
    name = str(found["loc"][0]) if found["loc"] else ""
    field = Settings.model_fields.get(name)
    if field is None:
        return f"there is no setting {name[:40]!r}; see the settings reference for their names"
    rule = str(found["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    value = str(found["input"])
    shown = f", not {value}" if name not in _SECRET and _HARMLESS.fullmatch(value) else ""
    default = "" if field.default is None else f" for the default {field.default}"
    return f"{PREFIX}{name.upper()} {rule}{shown}; mend it, or unset it{default}"
