"""Which application a command works for, and where its database is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.exits import USAGE, fail

if TYPE_CHECKING:
    from penstock.engine.app import Penstock

VARIABLE = "PENSTOCK_APP"

Application = Annotated[
    str | None,
    typer.Argument(metavar="MODULE:APP", help=f"Your application, such as myproject.jobs:app; or set {VARIABLE}."),
]
ApplicationOption = Annotated[
    str | None,
    typer.Option(
        "--app", metavar="MODULE:APP", help=f"Your application, such as myproject.jobs:app; or set {VARIABLE}."
    ),
]


def named(target: str | None) -> str:
    """The name of the application: as given, or as the environment says."""
    found = target or os.environ.get(VARIABLE)
    if not found:
        fail(
            f"Which application? Name it as MODULE:APP, such as `myproject.jobs:app`, or set {VARIABLE}. "
            "It is the module that says `app = Penstock()` and declares the job types.",
            USAGE,
        )
    return found


def load(target: str | None) -> Penstock:
    """Import the application."""
    from penstock.engine.locate import find_app

    return find_app(named(target))


def login(app: Penstock, role: str) -> str:
    """The DSN of the application; on the embedded server that of *role*, with everything made ready. Blocks."""
    if app.named_dsn is not None:
        return app.named_dsn
    from penstock.cli.first_start import ready_server

    dsn = ready_server(app.settings.home).url(user=role)
    app.use_dsn(dsn)
    return dsn
