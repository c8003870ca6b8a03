"""A primary with a replica, and a way to whichever of them serves: what a failover moves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg

from penstock.embedded import EmbeddedServer
from tests.support import clusters, servers

if TYPE_CHECKING:
    from typing import Any

CAUGHT_UP = "select coalesce(bool_and(replay_lsn = pg_current_wal_lsn()), false) from pg_stat_replication"


@dataclass
class Pair:
    """Two servers. `dsn` leads to the primary, and after `fail_over` to what was its replica."""

    primary: servers.PrivateServer
    replica: servers.PrivateServer
    way: Path

    @property
    def dsn(self) -> str:
        """The DSN of the owner; a link stands for the address that a failover moves."""
        return f"postgresql://penstock@/penstock?host={quote(str(self.way), safe='/')}&port=5432"

    def wait_for_replica(self) -> None:
        """From now on a COMMIT waits until the replica has it."""
        self.on_primary("alter system set synchronous_standby_names = '*'")
        self.on_primary("select pg_reload_conf()")
        self.until("select exists (select from pg_stat_replication where sync_state = 'sync')")

    def wait_no_longer(self) -> None:
        """Let go whoever waits for a replica, if the primary is still there."""
        if self.primary.embedded.status().running:
            self.on_primary("alter system reset synchronous_standby_names")
            self.on_primary("select pg_reload_conf()")

    def part(self) -> None:
        """The replica hears no more of its primary, after it has heard everything up to now."""
        self.until(CAUGHT_UP)
        with _superuser(self.replica) as connection:
            connection.execute("alter system set primary_conninfo = ''")
            connection.execute("select pg_reload_conf()")
        self.until("select not exists (select from pg_stat_replication)")

    def fail_over(self) -> None:
        """The primary dies, its replica takes over."""
        self.primary.kill()
        with _superuser(self.replica) as connection:
            connection.execute("select pg_promote()")
        self._lead_to(self.replica)

    def on_primary(self, statement: str) -> Any:
        """What a superuser gets for a statement."""
        with _superuser(self.primary) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchone() if cursor.description else None

    def until(self, condition: str) -> None:
        """Wait until the primary answers true."""
        with _superuser(self.primary) as connection:
            for _ in range(3000):
                row = connection.execute(condition).fetchone()
                if row is not None and row[0]:
                    return
                connection.execute("select pg_sleep(0.01)")
        raise AssertionError(f"it did not come about: {condition}")

    def clear_away(self) -> None:
        """Stop both and remove all they had."""
        for server in (self.primary, self.replica):
            clusters.remove_server(server.embedded)
        self.way.unlink(missing_ok=True)

    def _lead_to(self, server: servers.PrivateServer) -> None:
        new = self.way.with_suffix(".new")
        new.symlink_to(server.embedded.home.socket)
        new.rename(self.way)


def replicated(primary: servers.PrivateServer) -> Pair:
    """Make a replica of *primary*, which does not wait for it yet."""
    embedded = primary.embedded
    socket = embedded.home.socket
    door = embedded.home.data / "pg_hba.conf"
    door.write_text(door.read_text() + door.read_text().replace("local all", "local replication"))
    copy = EmbeddedServer(clusters.new_home("replica"), clusters.binaries_under_test(), clusters.SURVIVES_A_KILL)
    pair = Pair(primary, servers.PrivateServer(copy), copy.path / "way")
    pair.on_primary("select pg_reload_conf()")
    copy.home.create(copy.account)
    copy.home.data.mkdir(mode=0o700)
    os.chown(copy.home.data, *copy.account.owner)
    copied = ("-X", "stream", "-c", "fast", "--no-sync", "-R", "-d", f"host={socket} port=5432 user=postgres")
    copy._programs.run(copy.account, "pg_basebackup", "-D", str(copy.home.data), *copied)
    copy.start()
    pair._lead_to(primary)
    pair.until(CAUGHT_UP)
    return pair


def _superuser(server: servers.PrivateServer) -> psycopg.Connection[Any]:
    return psycopg.connect(server.superuser_dsn, autocommit=True)
