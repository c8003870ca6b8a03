"""DSNs: which servers they name, and that nobody reads the password in them."""

from __future__ import annotations

import pytest
from asyncpg.connect_utils import _parse_connect_dsn_and_args  # type: ignore[attr-defined]  # private

from penstock.contract.dsns import is_postgres_url, option, servers
from penstock.contract.texts import mask_dsn
from penstock.settings import Settings, load_settings, read_dsn
from penstock.settings.model import DSNS
from penstock.store import connect
from penstock.store.databases import dsn_of
from penstock.telemetry.masks import redact_text

BOTH = "postgresql://u:hunter2@h1:5432,h2:5433/db?target_session_attrs=read-write"
NAMING = {
    "postgresql://u@h/db": [("h", 5432)],
    "postgresql://u@h:6000/db": [("h", 6000)],
    BOTH: [("h1", 5432), ("h2", 5433)],
    "postgresql://u:hunter2@h1,h2:5433/db": [("h1", 5432), ("h2", 5433)],
    "postgres://u@[::1]:1,[fe80::2]/db": [("::1", 1), ("fe80::2", 5432)],
    "postgresql://u@/db?host=/run/a,/run/b&port=5432,5433": [("/run/a", 5432), ("/run/b", 5433)],
    "postgresql://u@/db?host=h1,h2&port=6000": [("h1", 6000), ("h2", 6000)],
    "postgresql://u@%2Frun%2Fa/db": [("/run/a", 5432)],
}


@pytest.mark.parametrize("dsn", NAMING)
def test_the_servers_of_a_dsn_are_those_that_the_driver_reads(dsn: str) -> None:
    assert servers(dsn) == NAMING[dsn]
    assert is_postgres_url(dsn)
    nothing = dict.fromkeys(
        ("host", "port", "user", "password", "passfile", "database", "ssl", "service", "servicefile", "direct_tls",
         "server_settings", "target_session_attrs", "krbsrvname", "gsslib")
    )  # fmt: skip
    addresses, _ = _parse_connect_dsn_and_args(dsn=dsn, **nothing)
    expected = [f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port) for host, port in NAMING[dsn]]
    assert addresses == expected


@pytest.mark.parametrize("dsn", ["postgresql://", "postgresql:///db", "postgresql://u@/db"])
def test_a_dsn_without_a_server_leaves_it_to_the_driver(dsn: str) -> None:
    assert servers(dsn) == []
    assert is_postgres_url(dsn)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:hunter2@h1:5432,h2:port/db",
        "postgresql://u@h1:5432,h2:99999/db",
        "postgresql://u@h1,h2,h3/db?port=1,2",
        "postgresql://u:hun/ter2@h1:5432,h2:5433/db",
        "postgresql://u@[::1:5432,h2/db",
        "mysql://u@h1,h2/db",
        "h1:5432,h2:5433",
    ],
)
def test_what_names_no_servers_is_no_dsn(dsn: str) -> None:
    assert not is_postgres_url(dsn)


@pytest.mark.parametrize("name", sorted(DSNS))
def test_every_setting_that_is_a_dsn_may_name_several_servers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PENSTOCK_{name.upper()}", BOTH)
    monkeypatch.setenv("PENSTOCK_ADMIN_DSN", BOTH)
    settings: Settings = load_settings()
    assert getattr(settings, name) == BOTH
    assert read_dsn("PENSTOCK_ADMIN_DSN") == BOTH
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("dsn", [BOTH, "postgresql://u@h1,h2/db?password=hunter2", "postgresql://h1:1,h2/db"])
def test_no_password_of_such_a_dsn_is_shown_anywhere(dsn: str) -> None:
    shown = (mask_dsn(dsn), connect.masked(dsn), str(connect.unavailable(OSError(), dsn)), redact_text(f"at {dsn}"))
    for text in shown:
        assert "hunter2" not in text
        assert "h1" in text
        assert "h2" in text


def test_another_database_of_the_same_servers() -> None:
    assert dsn_of(BOTH, "other") == BOTH.replace("/db?", "/other?")
    assert option(BOTH, "target_session_attrs") == "read-write"
