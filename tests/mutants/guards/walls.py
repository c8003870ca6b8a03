"""Walls around a login or an account that has leaked."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import Guard

EMBEDDED: Final = "src/penstock/embedded"
LINKS: Final = "tests/embedded/test_links.py"
UNSAFE: Final = "tests/store/test_unsafe_logins.py"
MEMBERS: Final = "tests/store/test_members.py"
ACCOUNTS: Final = "tests/embedded/test_accounts.py"

WRITTEN: Final = """growing = f"{name}.{os.getpid()}.new"
        with suppress(FileNotFoundError):
            os.unlink(growing, dir_fd=self.descriptor)
        descriptor = os.open(growing, os.O_WRONLY | _NEW | _FILE, mode, dir_fd=self.descriptor)"""

GUARDS: Final = (
    Guard(
        "root writes a file beside its place",
        f"{EMBEDDED}/folders.py",
        WRITTEN,
        "growing = name\n"
        "        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode, dir_fd=self.descriptor)",
        (f"{LINKS}::test_a_link_in_the_data_directory_is_not_followed",),
    ),
    Guard(
        "root follows no link to a lock",
        f"{EMBEDDED}/folders.py",
        "_FILE: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK",
        "_FILE: Final = os.O_CLOEXEC | os.O_NONBLOCK",
        (f"{LINKS}::test_a_link_in_a_users_home_that_cannot_be_replaced_is_refused",),
    ),
    Guard(
        "root follows no link to a directory",
        f"{EMBEDDED}/folders.py",
        "follow = follow or os.geteuid() != 0",
        "follow = True",
        (
            f"{LINKS}::test_a_link_in_a_users_home_that_cannot_be_replaced_is_refused",
            f"{LINKS}::test_a_link_in_the_place_of_the_data_directory_is_refused",
        ),
    ),
    Guard(
        "root's server is nobody's",
        f"{EMBEDDED}/accounts.py",
        "if account.name == SHARED:",
        "if False:",
        (f"{ACCOUNTS}::test_data_of_an_account_that_others_share_are_refused_with_the_way_out",),
    ),
    Guard(
        "data of another account are served as that account",
        f"{EMBEDDED}/accounts.py",
        'owner = _owner(home) or _owner(home / "data", itself=True)\n    return _switch_to',
        "owner = _owner(home)\n    return _switch_to",
        (f"{ACCOUNTS}::test_data_from_before_go_on_under_the_account_they_belong_to",),
    ),
    Guard(
        "an idle limit ends no stage",
        "src/penstock/store/members.py",
        "if asked:",
        "if False:",
        (f"{MEMBERS}::test_an_idle_limit_below_the_longest_stage_is_refused_with_the_type",),
    ),
    Guard(
        "an idle limit of ours is raised to the longest stage",
        "src/penstock/store/members.py",
        "return replace(limits, idle_in_transaction=longest.limit or OFF)",
        "return limits",
        (f"{MEMBERS}::test_a_limit_that_nobody_asked_for_is_raised_and_said",),
    ),
    Guard(
        "a worker is no owner",
        "src/penstock/store/logins.py",
        '    ("owns", "the owner of the schema", "neither grants nor row-level security bind it"),\n',
        "",
        (f"{UNSAFE}::test_whoever_runs_code_or_answers_others_refuses_the_owner",),
    ),
    Guard(
        "a login is what its roles make it",
        "src/penstock/store/sql/logins/facts.sql",
        "where pg_has_role(session_user, r.oid, 'member')",
        "where r.rolname = session_user",
        (f"{UNSAFE}::test_a_login_that_no_rule_binds_is_refused_however_it_came_by_that",),
    ),
    Guard(
        "a login is not what it has set its role to",
        "src/penstock/store/sql/logins/facts.sql",
        "where pg_has_role(session_user, r.oid, 'member')",
        "where pg_has_role(r.oid, 'member')",
        (f"{UNSAFE}::test_a_login_that_no_rule_binds_is_refused_however_it_came_by_that",),
    ),
    Guard(
        "a run by a function is refused too",
        "src/penstock/engine/dispatcher.py",
        'if not self._options.get("insecure"):',
        "if False:",
        (f"{UNSAFE}::test_whoever_runs_code_or_answers_others_refuses_the_owner",),
    ),
    Guard(
        "a login that is not the owner is refused, not warned",
        "src/penstock/store/temporary.py",
        'if database is None or not database["may"]:',
        "if database is None:",
        ("tests/store/test_temporary.py::test_a_login_that_does_not_own_the_database_learns_which_one_does",),
    ),
    Guard(
        "temporary objects are the owner's",
        f"{EMBEDDED}/cluster.py",
        "execute format('revoke temporary on database %I from public', found);",
        "null;",
        (f"{ACCOUNTS}::test_only_a_databases_owner_may_make_temporary_objects",),
    ),
)
