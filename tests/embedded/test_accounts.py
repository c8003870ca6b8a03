"""The account that runs root's server: made by the first start, of its own, and never one that others share."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from penstock.embedded import EmbeddedServer, EmbeddedServerError, accounts
from tests.support import clusters

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
DAEMON = pwd.getpwnam("daemon")
NOBODY = pwd.getpwnam("nobody")

# A machine whose /etc/passwd does not know the account, whatever the one under test knows.
ELSEWHERE = """
set -e
cp -a /etc/. "$1"
sed -i '/^penstock:/d' "$1"/passwd "$1"/shadow "$1"/group "$1"/gshadow
mount --bind "$1" /etc
exec "$2" -c '
import pwd
from penstock.embedded import accounts
accounts.make()
found = pwd.getpwnam("penstock")
print(found.pw_uid, found.pw_dir, found.pw_shell)
'
"""


def can_unshare() -> bool:
    tool = shutil.which("unshare")
    return tool is not None and subprocess.run([tool, "-m", "true"], capture_output=True, check=False).returncode == 0


def give(path: Path, entry: pwd.struct_passwd) -> None:
    subprocess.run(["chown", "-hR", f"{entry.pw_uid}:{entry.pw_gid}", path], check=True)  # noqa: S607


@as_root
@pytest.mark.contract("C-68")
def test_roots_server_has_an_account_of_its_own_also_where_postgres_is_there(unmade: EmbeddedServer) -> None:
    unmade.start()
    assert unmade.account.name == "penstock"
    assert Path(f"/proc/{unmade.status().pid}").stat().st_uid == pwd.getpwnam("penstock").pw_uid


@as_root
@pytest.mark.skipif(not can_unshare(), reason="this machine gives no mount namespace")
def test_the_account_is_made_without_a_shell_or_a_directory(home: Path) -> None:
    (home / "etc").mkdir()
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", ELSEWHERE, "elsewhere", str(home / "etc"), sys.executable],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    uid, directory, shell = done.stdout.split()
    assert 0 < int(uid) < 1000
    assert not Path(directory).exists()
    assert shell in {"/usr/sbin/nologin", "/sbin/nologin", "/usr/bin/nologin", "/bin/false"}


@pytest.mark.parametrize(
    ("tool", "reason"),
    [(None, "no useradd"), ("echo 'useradd: cannot open /etc/passwd' >&2; exit 1", "cannot open /etc/passwd")],
)
def test_where_no_account_can_be_made_the_way_out_is_named(
    tool: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "SYSTEM_TOOLS", str(tmp_path))
    monkeypatch.setattr(accounts, "NAME", "penstock-unheard-of")
    monkeypatch.setattr(accounts, "MAKE_AGAIN", 0.0)
    if tool is not None:
        (tmp_path / "useradd").write_text(f"#!/bin/sh\n{tool}\n")
        (tmp_path / "useradd").chmod(0o755)
    with pytest.raises(EmbeddedServerError, match=rf"{reason}.*useradd --system .*PENSTOCK_DSN"):
        accounts.make()


@as_root
def test_data_from_before_go_on_under_the_account_they_belong_to(embedded: EmbeddedServer) -> None:
    give(embedded.home.data, DAEMON)
    embedded.start()
    assert Path(f"/proc/{embedded.status().pid}").stat().st_uid == DAEMON.pw_uid
    with psycopg.connect(embedded.url()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert embedded.stop()


@as_root
@pytest.mark.contract("C-68")
def test_data_of_an_account_that_others_share_are_refused_with_the_way_out(embedded: EmbeddedServer) -> None:
    give(embedded.home.data, NOBODY)
    with pytest.raises(EmbeddedServerError, match=rf"belongs to 'nobody'.*chown -hR penstock: {embedded.home.data}"):
        embedded.start()

    give(embedded.home.data, pwd.getpwnam("penstock"))
    embedded.start()
    assert embedded.status().running


@pytest.mark.contract("C-68")
def test_only_a_databases_owner_may_make_temporary_objects(unmade: EmbeddedServer) -> None:
    unmade.start()
    assert _open_databases(unmade) == []
    with psycopg.connect(unmade.superuser_url(), autocommit=True) as admin:
        admin.execute("create database later")
    assert _open_databases(unmade) == ["later"]
    unmade.stop()
    unmade.start()
    assert _open_databases(unmade) == []


@pytest.mark.contract("C-68")
def test_the_databases_of_tests_are_closed_to_temporary_objects_too(database: clusters.Database) -> None:
    assert database.name not in _open_databases(database.server)


def _open_databases(server: EmbeddedServer) -> list[str]:
    """The databases in which everybody may make temporary objects."""
    with psycopg.connect(server.superuser_url()) as admin:
        rows = admin.execute(
            "select datname from pg_database d, aclexplode(coalesce(datacl, acldefault('d', datdba))) a"
            " where a.grantee = 0 and a.privilege_type = 'TEMPORARY' order by 1"
        )
        return [name for (name,) in rows]
