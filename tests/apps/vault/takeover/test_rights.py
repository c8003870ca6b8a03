"""Who may do what with the outbox, before and after; and how its questions are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest

from penstock.store.roles import FRONTEND, OPERATOR, ORCHESTRATOR, ROLES, VIEWER, WORKER
from tests.apps.vault.takeover import statements as say
from tests.apps.vault.takeover.outbox import Outbox
from tests.support import clusters
from tests.support.rights import allowed

STATEMENTS: Final = {
    "put in": "insert into vault.enrichment_outbox (item_id) select gen_random_uuid() where false",
    "move": "update vault.enrichment_outbox set status = 'DONE' where false",
    "look": "select id from vault.enrichment_outbox limit 0",
    "report": "select * from vault.outbox_takeover",
    "problems": "select problem from vault.outbox_quarantine limit 0",
    "rows": 'select "row" from vault.outbox_quarantine limit 0',
    "retry": "select vault.retry_quarantine()",
    "move in": "select vault.move_in('{}', true)",
    "take over": "select vault.take_over()",
}
MAY: Final = {
    ORCHESTRATOR: {"put in", "look"},
    WORKER: {"move", "look"},
    FRONTEND: set[str](),
    OPERATOR: {"look", "report", "problems", "retry"},
    VIEWER: set[str](),
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_with_the_outbox_what_it_is_there_for(
    role: str, outbox: Outbox, role_dsn: Callable[[str], str]
) -> None:
    outbox.up()
    with psycopg.connect(role_dsn(role)) as connection:
        assert {name for name, sql in STATEMENTS.items() if allowed(connection, sql)} == MAY[role]


def test_the_public_has_no_right_on_it(outbox: Outbox) -> None:
    outbox.up()
    assert outbox.run(
        "select relname from pg_class, aclexplode(relacl) as acl where relnamespace = 'vault'::regnamespace "
        "and acl.grantee = 0"
    ) == []  # fmt: skip


@pytest.fixture
def stranger(database: clusters.Database, admin: psycopg.Connection[Any]) -> Iterator[str]:
    """A login of the system of before, which knows nothing of Penstock."""
    name = f"legacy_{uuid4().hex[:12]}"
    admin.execute(f"create role {name} login")
    yield name
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute(f"drop owned by {name}")
    admin.execute(f"drop role {name}")


def test_a_login_of_before_keeps_its_rights_on_the_outbox_and_gets_no_others(
    stranger: str, outbox: Outbox, database: clusters.Database
) -> None:
    outbox.run("alter table vault.enrichment_outbox set schema public")
    outbox.run(f"grant select, insert, update (status, claimed_at) on public.enrichment_outbox to {stranger}")
    outbox.up()
    with psycopg.connect(database.role_dsn(stranger), autocommit=True) as connection:
        connection.execute(say.OLD_INSERT, {"id": uuid4(), "item_id": outbox.item()})
        assert connection.execute(say.OLD_CLAIM).rowcount == 1
        assert not allowed(connection, "select * from penstock.jobs")
        assert not allowed(connection, "select * from vault.items")
        assert not allowed(connection, "update public.enrichment_outbox set attempt_count = 9 where false")
    outbox.down()
    with psycopg.connect(database.role_dsn(stranger), autocommit=True) as connection:
        assert connection.execute(say.OLD_CLAIM).rowcount == 1


@pytest.mark.parametrize(
    ("statement", "index"), [(say.CLAIM, "vault_outbox_pending"), (say.RECLAIM, "vault_outbox_leased")]
)
def test_the_questions_of_pollers_are_answered_from_an_index(statement: str, index: str, outbox: Outbox) -> None:
    outbox.run(
        "with item as (insert into vault.items (id, owner_id, kind, content) "
        "select gen_random_uuid(), gen_random_uuid(), 'note', 'x' from generate_series(1, 2000) returning id) "
        "insert into vault.enrichment_outbox (item_id, status) select id, 'DONE' from item"
    )
    outbox.put()
    outbox.up()
    outbox.run("analyze penstock.jobs")
    with outbox.legacy() as poller:
        plan = "\n".join(str(row) for row in poller.execute(f"explain {statement}", {"worker_id": "w"}))
    assert index in plan
    assert "Seq Scan" not in plan
