"""One home never reads or writes another: table x role x verb x own or other home.

Every role logs in as itself. Each denial has its positive control: the same
statement on the role's own home, or as the owner where the role may not do it
at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

import asyncpg
import psycopg
import pytest

from penstock.apps.rewrite import homes, repository
from penstock.contract.errors import SettingsInvalid
from penstock.embedded import EmbeddedServer
from penstock.store import roles
from tests.apps.rewrite.estate import Estate, open_estate
from tests.apps.rewrite.isolation.test_grants import MATRIX, VIEWS
from tests.support import clusters

VERBS: Final = ("select", "insert", "update", "delete")
NO_RIGHT: Final = "permission denied"
OTHER_HOME: Final = "row-level security"
TABLES: Final = sorted(set(MATRIX) - VIEWS - {"schema_version"})
# How a table tells a row of a home: a column that whoever may read the table may read.
ROW: Final = {
    "homes": ("home_id", "home"), "home_keys": ("home_id", "home"), "users": ("user_id", "recipient"),
    "home_members": ("user_id", "recipient"), "preferences": ("user_id", "recipient"),
    "recipient_snapshots": ("recipient_snapshot_id", "snapshot"),
    "recipient_snapshot_members": ("recipient_snapshot_id", "snapshot"),
    "recipient_preference_snapshots": ("recipient_preference_snapshot_id", "wishes"),
    "rewrite_requests": ("rewrite_request_id", "request"), "rewrite_jobs": ("rewrite_request_id", "request"),
    "rewrite_outputs": ("rewrite_request_id", "request"), "evaluation_failures": ("job_id", "job"),
    "status_public": ("rewrite_request_id", "request"), "job_record": ("rewrite_request_id", "request"),
    "audit": ("rewrite_request_id", "request"),
}  # fmt: skip
UPDATED: Final = {  # a column that a role may change; for all others any
    ("users", roles.ORCHESTRATOR): "locale_raw", ("preferences", roles.ORCHESTRATOR): "tone",
    ("rewrite_requests", roles.ORCHESTRATOR): "sender_reveal_at", ("rewrite_requests", roles.WORKER): "status",
}  # fmt: skip
INSERT: Final = {
    "homes": "(home_id) values (%(new)s)",
    "home_keys": "(home_id, key_id, wrapped_key) values (%(keyless)s, 'k1', 'x')",
    "users": "(user_id) values (%(new)s)",
    "home_members": "(home_id, user_id) values (%(home)s, %(lodger)s)",
    "preferences": "(home_id, user_id, tone) values (%(home)s, %(sender)s, 'warm')",
    "recipient_snapshots": "(recipient_snapshot_id, home_id) values (%(new)s, %(home)s)",
    "recipient_snapshot_members": "(recipient_snapshot_id, home_id, user_id) values (%(bare)s, %(home)s, %(sender)s)",
    "recipient_preference_snapshots":
        "(recipient_preference_snapshot_id, home_id, user_id) values (%(new)s, %(home)s, %(sender)s)",
    "rewrite_requests":
        "(rewrite_request_id, home_id, sender_user_id, recipient_user_id, recipient_snapshot_id, "
        "recipient_preference_snapshot_id, surface, rewrite_strength, source_locale, target_locale, lane, "
        "classifier_result, rewrite_request) values (%(new)s, %(home)s, %(sender)s, %(recipient)s, %(snapshot)s, "
        "%(wishes)s, 'other', 'light_touch', 'en', 'es', 'cross_language', %(labels)s, 'x')",
    "rewrite_jobs":
        "(job_id, rewrite_request_id, home_id, sender_user_id, recipient_user_id, recipient_snapshot_id, "
        "recipient_preference_snapshot_id, source_locale, target_locale, lane, routing_decision) values (%(new)s, "
        "%(jobless)s, %(home)s, %(sender)s, %(recipient)s, %(jobless_snapshot)s, %(jobless_wishes)s, 'en', 'es', "
        "'cross_language', %(route)s)",
    "rewrite_outputs":
        "(rewrite_request_id, recipient_user_id, home_id, job_id, output_locale, rewrite_response, eval_version, "
        "lexicon_version) values (%(running)s, %(recipient)s, %(home)s, %(running_job)s, 'es', 'x', 'e1', 'x1')",
    "evaluation_failures":
        "(job_id, attempt, home_id, code, eval_version, lexicon_version) "
        "values (%(job)s, 9, %(home)s, 'EMPTY', 'e1', 'x1')",
}  # fmt: skip
LABELS: Final = (
    '{"classifier_version": "v", "detected_language": null, "language_confidence": "low", "topics": [], '
    '"intent": "x", "rewrite_strength": "light_touch", "safety_flags": []}'
)
ROUTE: Final = (
    '{"provider": "openai", "adapter_kind": "a", "base_url": null, "model": "m", "prompt_version": "v", '
    '"policy_version": "v", "execution_mode": "batch", "cache_eligible": true, "max_retries": 2}'
)
Facts = dict[str, Any]


@dataclass(frozen=True)
class Street:
    """Two homes that have rows in every table, and who may look at them."""

    database: clusters.Database
    mine: Facts
    other: Facts
    logins: dict[str | None, psycopg.Connection[Any]] = field(default_factory=dict)

    def outcome(self, role: str | None, facts: Facts, sql: str, *, at: UUID | None) -> int | str:
        """How many rows a statement returns or changes for *role* in the home *at*, or why it is refused."""
        given = facts | {"new": facts["new"] if at == facts["new"] else uuid4()}
        connection = self._login(role)
        connection.execute("select set_config('penstock.home_id', %s, true)", [str(at or "")])
        try:
            return connection.execute(sql, given).rowcount
        except psycopg.Error as error:
            words = str(error)
            return next((why for why in (NO_RIGHT, OTHER_HOME) if why in words), f"{error.sqlstate} {words}")
        finally:
            connection.rollback()

    def _login(self, role: str | None) -> psycopg.Connection[Any]:
        """One session for each role; every use of it ends with a rollback, and so does the home it is in."""
        if role not in self.logins:
            dsn = self.database.dsn if role is None else self.database.role_dsn(role)
            self.logins[role] = psycopg.connect(dsn)
        return self.logins[role]

    def leave(self) -> None:
        """Log everybody out."""
        for connection in self.logins.values():
            connection.close()


async def furnish(estate: Estate) -> Facts:
    """A home with a row in every table, and with what a new row of each needs."""
    home = await estate.home()
    key = await estate.key(home.home_id)
    async with estate.at(roles.ORCHESTRATOR, None) as connection:
        await homes.put_preferences(connection, key, home.home_id, home.recipient, "warm", ["loud"])
    done, jobless = await estate.completed(home), await estate.received(home)
    running, _ = await estate.claimed(home)
    async with estate.at(roles.WORKER, None) as connection:
        await repository.note_refusal(
            connection, home.home_id, done.job, attempt=1, code="EMPTY", eval_version="e1", lexicon_version="x1"
        )
    bare, lodger, keyless = uuid4(), uuid4(), uuid4()
    await estate.owner.execute("insert into rewrite.recipient_snapshots values ($1, $2)", bare, home.home_id)
    await estate.owner.execute("insert into rewrite.users values ($1)", lodger)
    await estate.owner.execute("insert into rewrite.homes values ($1)", keyless)
    return {
        "home": home.home_id, "sender": home.sender, "recipient": home.recipient, "request": done.request_id,
        "job": done.job, "snapshot": done.frozen.recipient_snapshot_id,
        "wishes": done.frozen.recipient_preference_snapshot_id, "running": running.request_id,
        "running_job": running.job, "jobless": jobless.request_id,
        "jobless_snapshot": jobless.frozen.recipient_snapshot_id,
        "jobless_wishes": jobless.frozen.recipient_preference_snapshot_id, "bare": bare, "lodger": lodger,
        "keyless": keyless, "new": uuid4(), "labels": LABELS, "route": ROUTE,
    }  # fmt: skip


@pytest.fixture(scope="module")
def street(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[Street]:
    """Two furnished homes; every test undoes what it does."""
    database = clusters.clone(shared_server, admin)

    async def build() -> tuple[Facts, Facts]:
        async with open_estate(database.dsn, database.role_dsn) as estate:
            return await furnish(estate), await furnish(estate)

    mine, other = asyncio.run(build())
    made = Street(database, mine, other)
    yield made
    made.leave()
    clusters.drop(database, admin)


def statement(verb: str, table: str, role: str) -> str:
    column, fact = ROW[table]
    where = f"where {column} = %({fact})s"
    changed = UPDATED.get((table, role), column)
    return {
        "select": f"select from rewrite.{table} {where}",
        "insert": f"insert into rewrite.{table} {INSERT.get(table)}",
        "update": f"update rewrite.{table} set {changed} = {changed} {where}",
        "delete": f"delete from rewrite.{table} {where}",
    }[verb]


def home_of(verb: str, table: str, facts: Facts) -> UUID:
    """The home that a row of *facts* belongs to."""
    where = {("insert", "homes"): "new", ("insert", "home_keys"): "keyless"}.get((verb, table), "home")
    found: UUID = facts[where]
    return found


@pytest.mark.contract("A-08", "L-13", "L-67")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_reaches_rows_of_its_own_home_and_of_no_other(street: Street, role: str, table: str, verb: str) -> None:
    sql = statement(verb, table, role)
    at = home_of(verb, table, street.mine)
    control = street.outcome(None, street.other, sql, at=None)
    assert control not in (0, NO_RIGHT, OTHER_HOME), "the owner's statement reaches a row, or a rule of the table"
    own, other, nowhere = (
        street.outcome(role, facts, sql, at=home)
        for facts, home in ((street.mine, at), (street.other, at), (street.mine, None))
    )
    if verb[0] not in MATRIX[table][role].lower():
        assert (own, other, nowhere) == (NO_RIGHT, NO_RIGHT, NO_RIGHT)
        return
    assert isinstance(own, int), own
    assert own >= 1
    if table == "users" and verb == "insert":
        assert nowhere == OTHER_HOME, "somebody new belongs to no home yet, but is added by one"
    elif verb == "insert":
        assert (other, nowhere) == (OTHER_HOME, OTHER_HOME)
    else:
        assert (other, nowhere) == (0, 0)


@pytest.mark.contract("A-08", "C-56")
@pytest.mark.parametrize("view", sorted(VIEWS))
@pytest.mark.parametrize("role", roles.ROLES)
def test_a_view_shows_its_reader_one_home(street: Street, role: str, view: str) -> None:
    sql = statement("select", view, role)
    home = street.mine["home"]
    assert street.outcome(None, street.other, sql, at=None) not in (0, NO_RIGHT)
    if not MATRIX[view][role]:
        assert street.outcome(role, street.mine, sql, at=home) == NO_RIGHT
        return
    assert street.outcome(role, street.mine, sql, at=home) not in (0, NO_RIGHT)
    assert street.outcome(role, street.other, sql, at=home) == 0
    assert street.outcome(role, street.mine, sql, at=None) == 0


@pytest.mark.contract("A-08")
def test_row_level_security_is_on_for_every_table(street: Street) -> None:
    with psycopg.connect(street.database.dsn) as owner:
        rows = owner.execute(
            "select relname from pg_class where relnamespace = 'rewrite'::regnamespace and relkind = 'r' "
            "and not relrowsecurity"
        ).fetchall()
    assert rows == [("schema_version",)]


async def test_a_home_is_left_with_the_transaction(estate: Estate) -> None:
    home = await estate.home()
    await estate.received(home)
    async with estate.at(roles.ORCHESTRATOR, home.home_id) as connection:
        assert await connection.fetchval("select count(*) from rewrite.rewrite_requests") == 1
    connection = await estate.login(roles.ORCHESTRATOR)
    assert await connection.fetchval("select count(*) from rewrite.rewrite_requests") == 0
    with pytest.raises(SettingsInvalid, match="inside a transaction"):
        await homes.enter_home(connection, home.home_id)


async def test_a_home_that_is_no_id_shows_nothing(estate: Estate) -> None:
    await estate.received(await estate.home())
    connection = await estate.login(roles.ORCHESTRATOR)
    for junk in ("' or true --", "*", "null"):
        with pytest.raises(asyncpg.InvalidTextRepresentationError):
            await ask_as(connection, junk)


async def ask_as(connection: asyncpg.Connection[Any], home: str) -> None:
    async with connection.transaction():
        await connection.execute("select set_config('penstock.home_id', $1, true)", home)
        await connection.fetch("select from rewrite.rewrite_requests")


async def test_the_row_of_a_user_is_shared_by_their_homes_and_by_no_other(estate: Estate) -> None:
    one, two, stranger = await estate.home(), await estate.home(), await estate.home()
    async with estate.at(roles.ORCHESTRATOR, None) as connection:
        await homes.put_member(connection, two.home_id, one.sender, "fr")
    seen = {}
    for home in (one, two, stranger):
        async with estate.at(roles.ORCHESTRATOR, home.home_id) as connection:
            seen[home.home_id] = await connection.fetchval(
                "select locale_raw from rewrite.users where user_id = $1", one.sender
            )
    assert seen == {one.home_id: "fr", two.home_id: "fr", stranger.home_id: None}


@pytest.mark.contract("A-08", "A-28")
async def test_a_worker_in_the_wrong_home_finds_no_job(estate: Estate) -> None:
    unit, _ = await estate.claimed(await estate.home())
    other = await estate.home()
    async with estate.at(roles.WORKER, None) as connection:
        assert await repository.load_job(connection, unit.job, other.home_id) is None
        assert await repository.load_job(connection, unit.job, unit.home.home_id) is not None
        assert not await repository.complete_request(connection, other.home_id, unit.request_id)
