"""Root writes into directories that the server's account owns, and follows no link that the account put there."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from penstock.embedded import Binaries, EmbeddedServer, EmbeddedServerError, packaged
from penstock.embedded.accounts import Account
from tests.support import clusters, seeds

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root writes into what others own"),
    pytest.mark.contract("C-68"),
]
DAEMON = pwd.getpwnam("daemon")
TEXT = "for root alone\n"
Script = Callable[..., object]

# What the whole life of a server opens, changes or hands over by a name, seen from inside the interpreter.
WATCHED = """
import os, sys
from penstock.embedded import EmbeddedServer, home
home.LOG_BYTES = 0  # so that the log is begun anew
bad = []
writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
where = os.environ["PENSTOCK_HOME"]
def watch(event, given):
    if event == "open" and isinstance(given[0], str) and given[2] & writes and not given[2] & os.O_NOFOLLOW:
        if given[0].startswith(where) or not given[0].startswith("/"):
            bad.append((event, given[0]))
    if event in ("os.chmod", "os.chown", "os.truncate") and isinstance(given[0], (str, os.PathLike)):
        bad.append((event, str(given[0])))
sys.addaudithook(watch)
server = EmbeddedServer(settings={"fsync": "off"})
for _ in range(2):
    server.start(pin=True)
    server.hold()
    server.release()
    server.status()
    server.stop()
print(bad)
"""


@pytest.fixture
def target(home: Path) -> Iterator[Path]:
    """A file of root's that a link could lead to."""
    path = clusters.new_home("target") / "secret"
    path.write_text(TEXT)
    path.chmod(0o600)
    yield path
    path.unlink()


def untouched(target: Path) -> bool:
    found = target.stat()
    return target.read_text() == TEXT and found.st_uid == 0 and stat.S_IMODE(found.st_mode) == 0o600


def plant(link: Path, target: Path, uid: int) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    os.chown(link, uid, -1, follow_symlinks=False)


@pytest.mark.parametrize("name", ["penstock.conf", "pg_hba.conf", "pg_ident.conf", "postmaster.pid", "postgresql.conf"])
def test_a_link_in_the_data_directory_is_not_followed(embedded: EmbeddedServer, target: Path, name: str) -> None:
    plant(embedded.home.data / name, target, embedded.account.uid)
    if name == "postgresql.conf":  # root does not write it again, and the server itself may not read the target
        with pytest.raises(EmbeddedServerError):
            embedded.start()
    else:
        embedded.start()
        with psycopg.connect(embedded.url()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    assert untouched(target)


def test_a_link_in_the_place_of_a_new_clusters_configuration_is_not_followed(
    unmade: EmbeddedServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Binaries.run

    def run(binaries: Binaries, account: Account, tool: str, *args: str, stdin: str = "") -> str:
        done = real(binaries, account, tool, *args, stdin=stdin)
        if tool == "initdb":
            plant(unmade.path / "data.partial" / "postgresql.conf", target, account.uid)
        return done

    monkeypatch.setattr(Binaries, "run", run)
    unmade.start()
    assert unmade.status().running
    assert untouched(target)


@pytest.fixture
def theirs(home: Path) -> EmbeddedServer:
    """A home that belongs to a plain user, which root serves as that user."""
    home.chmod(0o711)
    (home / "programs").mkdir()
    stranger = Account("daemon", DAEMON.pw_uid, DAEMON.pw_gid, switch=True)
    reachable = packaged().within_reach(stranger, home / "programs")
    place = home / "theirs"
    place.mkdir(mode=0o711)
    server = EmbeddedServer(place, reachable, clusters.SURVIVES_A_KILL)
    seeds.sow(server, "empty", lambda _: None)
    for path in [place, server.home.data, *server.home.data.rglob("*")]:
        os.chown(path, DAEMON.pw_uid, DAEMON.pw_gid, follow_symlinks=False)
    return server


@pytest.mark.parametrize("name", ["pinned", "server.log", "run"])
def test_a_link_in_a_users_home_is_replaced_not_followed(theirs: EmbeddedServer, target: Path, name: str) -> None:
    plant(theirs.path / name, target, DAEMON.pw_uid)
    theirs.start(pin=True)
    assert theirs.status().running
    assert untouched(target)
    theirs.stop()


@pytest.mark.parametrize("name", ["lock", "holders", "binaries"])
def test_a_link_in_a_users_home_that_cannot_be_replaced_is_refused(
    theirs: EmbeddedServer, target: Path, name: str
) -> None:
    plant(theirs.path / name, target if name == "lock" else target.parent, DAEMON.pw_uid)
    before = target.parent.stat()
    with pytest.raises(EmbeddedServerError):
        theirs.hold()
    after = target.parent.stat()
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    assert [path.name for path in target.parent.iterdir()] == ["secret"]
    assert untouched(target)


def test_a_link_that_leads_the_socket_elsewhere_is_not_followed(theirs: EmbeddedServer, target: Path) -> None:
    plant(theirs.path / "run", target.parent, DAEMON.pw_uid)
    before = target.parent.stat()
    theirs.start()
    after = target.parent.stat()
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    assert theirs.home.socket == theirs.path / "run"
    theirs.stop()


def test_a_link_in_the_place_of_the_data_directory_is_refused(theirs: EmbeddedServer, target: Path) -> None:
    theirs.home.data.rename(theirs.path / "moved")
    plant(theirs.home.data, target.parent, DAEMON.pw_uid)
    with pytest.raises(EmbeddedServerError, match="is a link or no directory"):
        theirs.start()
    assert untouched(target)


def test_a_link_among_the_holders_is_not_followed(theirs: EmbeddedServer, target: Path) -> None:
    (theirs.path / "holders").mkdir()
    os.chown(theirs.path / "holders", DAEMON.pw_uid, DAEMON.pw_gid)
    for number in range(1, 50):
        plant(theirs.path / "holders" / f"{os.getpid()}.{number}", target.parent / "new", DAEMON.pw_uid)
    with pytest.raises(EmbeddedServerError, match="no file of ours"):
        theirs.hold()
    assert not (target.parent / "new").exists()
    theirs.home.data.rename(theirs.path / "gone")


def test_root_changes_nothing_by_a_name_that_could_have_become_a_link(python: Script) -> None:
    process = python(WATCHED)
    printed, _ = process.communicate()  # type: ignore[attr-defined]
    assert printed.strip() == "[]"
