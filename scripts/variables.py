"""The variables that are read beside the settings, for the page of settings."""

from __future__ import annotations

from typing import Final

from penstock.store.roles import ROLES

OTHERS: Final = (
    ("PENSTOCK_APP", "commands that need your application", "`MODULE:APP`, where the command line names none"),
    (
        "PENSTOCK_ADMIN_DSN",
        "`penstock roles create`",
        "a login with CREATEROLE; unset: `PENSTOCK_DSN`",
    ),
    *(
        (f"{role.upper()}_PASSWORD", "`penstock roles create`", f"password of the role `{role}`; unset: it gets none")
        for role in ROLES
    ),
    ("PENSTOCK_LOGIN_PASSWORD", "`penstock roles login`", "password of the login; unset: it gets none"),
    ("PENSTOCK_VAULT_OWNER", "`penstock vault`", "whose items, where `--owner` is not given"),
    (
        "PENSTOCK_TEST_DSN",
        "the fixtures of `penstock.testing`",
        "a server for tests, with a login that has CREATEDB; unset: an embedded one",
    ),
    ("PENSTOCK_DEBUG", "every command", "set to anything: an error that is a bug is shown whole, texts included"),
)
