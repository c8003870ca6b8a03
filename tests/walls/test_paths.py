"""Functions that run as the owner, read from the catalog, and the attack that their path must withstand."""

from typing import Final

import psycopg
import pytest

from penstock.store import roles
from tests.walls.conftest import Town

SCHEMAS: Final = ("penstock", "rewrite", "review", "vault")
DEFINERS: Final = """
    select p.oid::regprocedure::text, p.proconfig, pg_get_userbyid(p.proowner),
           coalesce((select array_agg(case a.grantee when 0 then 'public' else pg_get_userbyid(a.grantee)::text end)
              from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
             where a.privilege_type = 'EXECUTE' and a.grantee <> p.proowner), '{}')
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname = any(%s) and p.prosecdef"""
# A temporary domain named like a type of the catalog: its CHECK runs in whatever evaluates it, as whoever that runs as.
ATTACK: Final = """
create function pg_temp.seize() returns boolean language plpgsql as $$
begin
    execute 'create table if not exists penstock.seized as select current_user::text as who';
    return true;
exception when insufficient_privilege then
    return true;
end $$;
create domain pg_temp.timestamptz as pg_catalog.timestamptz check (pg_temp.seize());
create domain pg_temp.uuid as pg_catalog.uuid check (pg_temp.seize());
create domain pg_temp.text as pg_catalog.text check (pg_temp.seize());
create domain pg_temp.jsonb as pg_catalog.jsonb check (pg_temp.seize());
"""
CALLS: Final = {
    roles.WORKER: (
        "select penstock.put_job('open', '{}', 'open:x', null, null, null, null, null, true, null)",
        "select penstock.reap(10)", "select penstock.prune_old('runs', interval '1 year', 1)",
        "select penstock.add_spend('open', 'p', 'm', '', '', 'async', 0, 0, 0, null, 1)",
        "select * from penstock.claim_gated('wall', 'mine', interval '1 minute', 1, null)",
        "select penstock.trip_breaker('open', 'AUTH_DENIED')",
    ),
    roles.ORCHESTRATOR: (
        "select penstock.put_job('open', '{}', 'open:y', null, null, null, null, null, true, null)",
        "select penstock.put_jobs('open', array[gen_random_uuid()], '{\"{}\"}', null, null, null, null, null, true)",
        "select penstock.check_key('abcdefghijkl', '')",
    ),
    roles.FRONTEND: ("select penstock.check_key('abcdefghijkl', '')",),
    roles.OPERATOR: (
        "select penstock.cancel((select job_id from penstock.jobs where status = 'queued' limit 1), 'x', 'y')",
        "select penstock.create_key('zbcdefghijkl', sha256(''), 'operator', null, null, 'n', 'x', interval '1 day')",
        "select penstock.prune_old('alerts', interval '1 year', 1)",
        "select penstock.take_step(dead_letter_id, 'triaged', 'x', '{}', 'data') from penstock.dead_letters limit 1",
    ),
}  # fmt: skip


@pytest.mark.contract("C-68")
def test_every_function_that_runs_as_the_owner_names_pg_temp_last_and_is_for_named_roles(town: Town) -> None:
    rows = town.owner.execute(DEFINERS, [list(SCHEMAS)]).fetchall()
    assert len(rows) > 60
    for name, settings, owner, callers in rows:
        assert "search_path=pg_catalog, pg_temp" in (settings or []), name
        assert owner == "penstock", name
        assert set(callers) <= set(roles.ROLES), name


@pytest.mark.contract("C-68")
@pytest.mark.parametrize("role", CALLS)
def test_a_temporary_type_runs_no_code_as_the_owner(role: str, town: Town) -> None:
    superuser = psycopg.connect(town.database.superuser_dsn, autocommit=True)
    superuser.execute(f"grant temporary on database {town.database.name} to public")  # as it is on most servers
    attacker = town.login(role)
    attacker.execute(ATTACK)
    for call in CALLS[role]:
        attacker.execute(call)
    assert town.one("select to_regclass('penstock.seized')") is None
    # The control: the same code, given the owner's rights, does seize.
    town.owner.execute(ATTACK)
    town.owner.execute("select now()::pg_temp.timestamptz")
    assert town.one("select who from penstock.seized") == "penstock"
    town.owner.execute("drop table penstock.seized")
    superuser.execute(f"revoke temporary on database {town.database.name} from public")
    superuser.close()


@pytest.mark.contract("C-68")
def test_no_role_owns_anything_or_creates_in_a_schema(town: Town) -> None:
    for role in roles.ROLES:
        owned = town.one(
            "select count(*) from pg_class c join pg_roles r on r.oid = c.relowner where r.rolname = %s", role
        )
        assert owned == 0
        for schema in SCHEMAS:
            assert town.one("select has_schema_privilege(%s, %s, 'create')", role, schema) is False
            assert town.one("select has_schema_privilege('penstock', %s, 'create')", schema) is True
