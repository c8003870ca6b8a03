"""Who can reach the server, as whom it runs, and what its log may say."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from penstock.embedded import Binaries, EmbeddedServer, EmbeddedServerError, default_home, installed, packaged
from penstock.embedded.accounts import Account
from tests.support import clusters, seeds

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
STRANGER = pwd.getpwnam("daemon")

# Everything is imported before the rights are dropped: the interpreter itself may live where only root gets in.
AS_STRANGER = f"""
import os, sys
import psycopg
from pathlib import Path
from penstock.embedded import Binaries, EmbeddedServer
os.setgroups([]); os.setgid({STRANGER.pw_gid}); os.setuid({STRANGER.pw_uid})
server = EmbeddedServer(Path(sys.argv[1]), Binaries(Path(sys.argv[2])))
"""


def run_as_stranger(code: str, home: Path, programs: Binaries) -> str:
    command = [sys.executable, "-c", AS_STRANGER + code, str(home), str(programs.directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def looked_at() -> Iterator[EmbeddedServer]:
    """One running server for all tests that only look at it."""
    server = EmbeddedServer(clusters.new_home("home"), settings=clusters.SURVIVES_A_KILL)
    seeds.sow(server, "empty", lambda _: None)
    server.start()
    yield server
    clusters.remove_server(server)


@pytest.fixture
def running(embedded: EmbeddedServer) -> EmbeddedServer:
    embedded.start()
    return embedded


@pytest.fixture
def for_anyone(home: Path) -> Binaries:
    """The packaged programs at a place that every account can reach."""
    stranger = Account("daemon", STRANGER.pw_uid, STRANGER.pw_gid, switch=True)
    (home / "for-anyone").mkdir()
    return packaged().within_reach(stranger, home / "for-anyone")


@pytest.fixture
def closed_directory() -> Iterator[Path]:
    """A directory that only this user can enter, as root's own is."""
    path = clusters.new_home("closed")
    path.chmod(0o700)
    yield path
    shutil.rmtree(path)


def test_the_socket_is_closed_to_other_accounts(looked_at: EmbeddedServer) -> None:
    directory = looked_at.home.socket.stat()
    assert stat.S_IMODE(directory.st_mode) == 0o700
    assert directory.st_uid == looked_at.account.uid
    assert stat.S_IMODE(looked_at.home.data.stat().st_mode) == 0o700


def test_the_server_listens_on_nothing_but_its_socket(looked_at: EmbeddedServer) -> None:
    with psycopg.connect(looked_at.url()) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)


def test_applications_log_in_as_a_role_without_special_rights(looked_at: EmbeddedServer) -> None:
    with psycopg.connect(looked_at.url()) as connection:
        rights = connection.execute(
            "select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication"
            "  from pg_roles where rolname = current_user"
        ).fetchone()
        owner = connection.execute(
            "select pg_get_userbyid(datdba) from pg_database where datname = current_database()"
        ).fetchone()
    assert rights == (False, False, False, False, False)
    assert owner == ("penstock",)


def test_a_table_of_the_application_lands_in_public_not_in_the_engines_schema(running: EmbeddedServer) -> None:
    with psycopg.connect(running.url()) as connection:
        connection.execute("create schema penstock")
        connection.execute("create table pictures ()")
        assert connection.execute("select to_regclass('public.pictures') is not null").fetchone() == (True,)


def test_the_superuser_has_a_dsn_of_its_own(looked_at: EmbeddedServer) -> None:
    with psycopg.connect(looked_at.superuser_url()) as connection:
        assert connection.info.user == "postgres"
        assert connection.info.dbname == "penstock"


async def test_every_driver_understands_the_url_whatever_the_environment_says(
    looked_at: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGHOST", "nowhere.invalid")
    connection = await asyncpg.connect(looked_at.url())
    assert await connection.fetchval("select 1") == 1
    await connection.close()
    with psycopg.connect(looked_at.url()) as sync:
        assert sync.execute("select 1").fetchone() == (1,)
    for driver in ("asyncpg", "psycopg"):
        engine = create_async_engine(looked_at.url().replace("postgresql:", f"postgresql+{driver}:"))
        async with engine.connect() as session:
            assert await session.scalar(text("select 1")) == 1
        await engine.dispose()


def test_the_log_repeats_no_text_that_a_statement_carried(running: EmbeddedServer) -> None:
    words = "the neighbours quarrel at night"
    with psycopg.connect(running.url(), autocommit=True) as connection:
        for statement in (f"select '{words}'::int", "select %(text)s::int", f"select 1 from {words.split()[1]}"):
            with pytest.raises(psycopg.Error):
                connection.execute(statement.encode(), {"text": words} if "%" in statement else None)
        connection.execute(f"do $$ begin raise warning '{words}'; end $$".encode())
        connection.execute("create table t (note text unique)")
        connection.execute("insert into t values (%s)", [words])
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("insert into t values (%s)", [words])
    log = running.home.log.read_text()
    assert "ready to accept connections" in log
    assert not any(word in log for word in words.split() if len(word) > 3)


def test_a_home_too_deep_for_a_socket_gets_a_short_private_one(home: Path) -> None:
    deep = EmbeddedServer(home / ("deep" * 30), settings=clusters.SURVIVES_A_KILL)
    deep.path.mkdir()
    seeds.sow(deep, "empty", lambda _: None)
    deep.start()
    try:
        assert len(os.fsencode(deep.home.socket)) < 60
        assert stat.S_IMODE(deep.home.socket.stat().st_mode) == 0o700
        with psycopg.connect(deep.url()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    finally:
        deep.stop()
        shutil.rmtree(deep.home.socket)


def test_a_short_socket_directory_that_was_swept_away_is_made_anew(home: Path) -> None:
    spaced = EmbeddedServer(home / "with a space", settings=clusters.SURVIVES_A_KILL)
    spaced.start()
    spaced.stop()
    first = spaced.home.socket
    shutil.rmtree(first)

    spaced.start()
    assert spaced.home.socket != first
    with psycopg.connect(spaced.url()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    spaced.stop()
    shutil.rmtree(spaced.home.socket)


@pytest.mark.parametrize("name", ['quo"te', "dol$lar", "back`tick"])
def test_a_home_that_a_shell_would_misread_is_refused(home: Path, name: str) -> None:
    with pytest.raises(EmbeddedServerError, match="plainer path"):
        EmbeddedServer(home / name).start()


def test_a_home_that_cannot_be_made_is_refused_with_the_way_out(home: Path) -> None:
    (home / "file").touch()
    with pytest.raises(EmbeddedServerError, match=r"cannot create .*Set PENSTOCK_HOME"):
        EmbeddedServer(home / "file" / "below").start()


def test_the_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", "/srv/penstock")
    assert default_home() == Path("/srv/penstock")
    monkeypatch.delenv("PENSTOCK_HOME")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", "/data/me")
    assert default_home() == Path("/data/me/penstock")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_home() == Path("/home/me/.local/share/penstock")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_home() == Path("/var/lib/penstock")


def test_a_version_that_is_not_installed_says_what_to_install() -> None:
    with pytest.raises(EmbeddedServerError, match=r"no PostgreSQL 99 .*apt install postgresql-99"):
        installed(99)


@as_root
def test_a_path_with_a_directory_that_one_may_not_enter_is_looked_through_all_the_same(closed_directory: Path) -> None:
    printed = run_as_stranger(
        "from penstock.embedded import installed\n"
        f"os.environ['PATH'] = '{closed_directory / 'bin'}'\n"
        "try:\n    installed(99)\nexcept Exception as error:\n    print(error)\n",
        closed_directory,
        packaged(),
    )
    assert "no PostgreSQL 99 server programs" in printed


@as_root
def test_root_runs_the_server_as_somebody_without_rights(looked_at: EmbeddedServer) -> None:
    pid = looked_at.status().pid
    assert Path(f"/proc/{pid}").stat().st_uid == looked_at.account.uid != 0


@as_root
def test_a_plain_user_runs_a_server_of_their_own(home: Path, for_anyone: Binaries) -> None:
    theirs = home / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, STRANGER.pw_uid, STRANGER.pw_gid)
    printed = run_as_stranger(
        "server.hold()\n"
        "print(psycopg.connect(server.url()).execute('select current_user').fetchone()[0])\n"
        "server.release()\n"
        "print(server.status().running)\n",
        theirs,
        for_anyone,
    )
    assert printed.split() == ["penstock", "False"]


@as_root
def test_root_serves_a_users_home_as_that_user_and_does_not_lock_them_out(home: Path, for_anyone: Binaries) -> None:
    home.chmod(0o700)
    os.chown(home, STRANGER.pw_uid, STRANGER.pw_gid)
    EmbeddedServer(home, for_anyone).start(pin=True)

    printed = run_as_stranger(
        "server.hold()\n"
        "print(psycopg.connect(server.url()).execute('select current_user').fetchone()[0])\n"
        "server.release()\n"
        "print(server.stop(force=False))\n",
        home,
        for_anyone,
    )
    assert printed.split() == ["penstock", "True"]


@as_root
def test_a_stranger_is_turned_away_even_when_the_directory_is_opened(running: EmbeddedServer) -> None:
    running.home.socket.chmod(0o755)
    (running.home.socket / ".s.PGSQL.5432").chmod(0o777)
    printed = run_as_stranger(
        f"try:\n    psycopg.connect({running.url()!r})\nexcept psycopg.OperationalError as error:\n    print(error)\n",
        running.path,
        packaged(),
    )
    assert "Peer authentication failed" in printed


@as_root
def test_somebody_elses_home_is_refused_by_name(looked_at: EmbeddedServer) -> None:
    printed = run_as_stranger(
        "try:\n    server.hold()\nexcept Exception as error:\n    print(error)\n", looked_at.path, packaged()
    )
    assert f"{looked_at.path} belongs to somebody else" in printed


@as_root
def test_root_is_told_when_the_servers_account_cannot_reach_the_home(closed_directory: Path) -> None:
    with pytest.raises(EmbeddedServerError, match=r"cannot enter .*such as /var/lib/penstock"):
        EmbeddedServer(closed_directory / "home").start()
    assert stat.S_IMODE(closed_directory.stat().st_mode) == 0o700


@as_root
def test_programs_that_the_servers_account_cannot_reach_are_copied_not_opened(
    home: Path, closed_directory: Path
) -> None:
    package = packaged().directory.parents[1]
    for source in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(source, closed_directory / source.name, symlinks=True)
    hidden = Binaries(closed_directory / packaged().directory.relative_to(package.parent))

    server = EmbeddedServer(home, hidden, clusters.SURVIVES_A_KILL)
    server.start()
    assert server.status().running
    assert stat.S_IMODE(closed_directory.stat().st_mode) == 0o700
    server.stop()
