"""Making a data directory, whole or not at all, and writing its configuration."""

import pwd
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from penstock.embedded import folders
from penstock.embedded.accounts import Account
from penstock.embedded.binaries import Binaries
from penstock.embedded.errors import EmbeddedServerError

SUPERUSER = "postgres"
ROLE = "penstock"
DATABASE = "penstock"
CONF = "postgresql.conf"

BUILTIN_LOCALES = 17  # first version with collations that no operating system update changes
MAP_ALL_ROLES = 16  # first version whose pg_ident.conf knows the role name "all"

# Only where it is granted: a server that waits for a replica must not wait for this at every start.
REVOKE_TEMPORARY: Final = """
do $$
declare found text;
begin
  if pg_is_in_recovery() then return; end if;
  for found in
    select d.datname from pg_database d
     where exists (select from aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
                    where a.grantee = 0 and a.privilege_type = 'TEMPORARY')
  loop
    execute format('revoke temporary on database %I from public', found);
  end loop;
end $$;
"""

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Errors quote the value they choke on, so the log holds no ERROR at all
    # (LOG ranks above it), and no statement, parameter or detail with the rest.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_lock_waits": "off",
    "log_checkpoints": "off",
}


def create(data: Path, binaries: Binaries, account: Account, *, durable: bool) -> None:
    """Make the cluster with Penstock's role and database in it.

    It grows beside its place and is moved there at the end, so a process
    killed half-way leaves nothing that looks like a cluster. Tests that do
    without *durable* files save the wait for the disk.
    """
    growing = data.with_name("data.partial")
    shutil.rmtree(growing, ignore_errors=True)
    with folders.opened(data.parent) as home:
        home.make(growing.name, account.owner, mode=0o700)
        wait = () if durable else ("--no-sync",)
        binaries.run(account, "initdb", "-D", str(growing), "-U", SUPERUSER, *_locale(binaries), *wait)
        with home.inside(growing.name) as folder:
            own = (folder.read(CONF) or "") + "\ninclude_if_exists = 'penstock.conf'\n"
            folder.write(CONF, own, account.owner)
        binaries.run(account, "postgres", "--single", "-D", str(growing), "template1", stdin=_first_statements())
        home.rename(growing.name, data.name)


def check_version(data: Path, binaries: Binaries) -> None:
    """Refuse a data directory that another major version wrote."""
    with folders.opened_itself(data) as folder:
        written_by = (folder.read("PG_VERSION") or "?").strip()[:10]
    if written_by != str(binaries.major):
        raise EmbeddedServerError(
            f"{data} was written by PostgreSQL {written_by}, the installed server is "
            f"{binaries.major}. Dump it with the old version and restore it into a new "
            "PENSTOCK_HOME, or run pg_upgrade."
        )


def configure(data: Path, socket: Path, binaries: Binaries, account: Account, extra: Mapping[str, str]) -> None:
    """Write the settings and the door: a private socket, and who may come through it."""
    settings = {**SETTINGS, "unix_socket_directories": str(socket), **extra}
    files = {
        "penstock.conf": [f"{k} = '{v}'" for k, v in settings.items()],
        "pg_hba.conf": [_door(binaries)],
        "pg_ident.conf": _visitors(binaries, account),
    }
    with folders.opened_itself(data) as folder:
        for name, lines in files.items():
            folder.write(name, "".join(f"{line}\n" for line in lines), account.owner)


def revoke_temporary(socket: Path, binaries: Binaries, account: Account) -> None:
    """Let no login but a database's owner make temporary objects, in any database of the running server.

    A temporary table or function of a leaked login is a place to hide names in
    that somebody else's statement would find first. A standby follows its primary.
    """
    options = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname=template1", "--file=-")
    at = (f"--host={socket}", "--port=5432", f"--username={SUPERUSER}")
    binaries.run(account, "psql", *at, *options, stdin=REVOKE_TEMPORARY)


def _door(binaries: Binaries) -> str:
    """Let in by the kernel's word who is there; old versions rely on the closed directory."""
    method = "peer map=penstock" if binaries.major >= MAP_ALL_ROLES else "trust"
    return f"local all all {method}"


def _visitors(binaries: Binaries, account: Account) -> Iterable[str]:
    """Name the two accounts that may log in: the server's own, and root."""
    if binaries.major < MAP_ALL_ROLES:
        return []
    names = dict.fromkeys([account.name, pwd.getpwuid(0).pw_name])
    return [f'penstock "{name}" all' for name in names]


def _locale(binaries: Binaries) -> Iterable[str]:
    """Sort by code point everywhere, so that an index outlives a system update."""
    common = ("--encoding=UTF8", "--locale=C", "--no-instructions", "--auth=reject")
    if binaries.major < BUILTIN_LOCALES:
        return common
    return (*common, "--locale-provider=builtin", "--builtin-locale=C.UTF-8")


def _first_statements() -> str:
    """Return what the cluster is born with; applications never log in as superuser.

    The role bears the name of Penstock's schema, which would make that schema
    the home of every table an application creates; its search path says public.
    """
    return (
        f"create role {ROLE} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls;\n"
        f"alter role {ROLE} set search_path to public;\n"
        f"create database {DATABASE} owner {ROLE};\n"
    )
