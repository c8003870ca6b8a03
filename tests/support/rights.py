"""What the roles may do in a schema, tried statement by statement, with the owner as the control of each denial."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import psycopg

VERBS: Final = ("select", "insert", "update", "delete", "truncate")


@dataclass(frozen=True)
class Rights:
    """The matrix of one schema.

    s select, i insert, u update, d delete; a capital letter: only the columns
    that *columns* names. Nobody may truncate.
    """

    schema: str
    matrix: Mapping[str, Mapping[str, str]]
    columns: Mapping[tuple[str, str, str], AbstractSet[str]]
    views: AbstractSet[str]

    def tables(self, owner: psycopg.Connection[Any]) -> set[str]:
        """Every table and view that there is."""
        rows = owner.execute(
            "select relname from pg_class where relnamespace = %s::regnamespace and relkind in ('r', 'v', 'p', 'm')",
            [self.schema],
        ).fetchall()
        return {row[0] for row in rows}

    def wrong(self, role: str, connection: psycopg.Connection[Any], control: psycopg.Connection[Any]) -> list[str]:
        """What *role* may do over *connection* and should not, and the other way round."""
        wrong = []
        for table, rights in self.matrix.items():
            for verb in VERBS if table not in self.views else ("select",):
                expected = verb != "truncate" and verb[0] in rights[role].lower()
                some = self.columns.get((role, table, verb))
                for column in sorted(some) if some else self.writable(control, table)[:1]:
                    sql = self.statement(verb, table, column)
                    assert verb == "truncate" or allowed(control, sql), f"no control: {sql}"
                    if allowed(connection, sql) != expected:
                        wrong.append(f"{role} {'must' if expected else 'must not'}: {sql}")
        return wrong

    def columns_for(self, verb: str, table: str, connection: psycopg.Connection[Any], owner: Any) -> set[str]:
        """The columns on which *connection* has the right."""
        return {
            column for column in self.writable(owner, table) if allowed(connection, self.statement(verb, table, column))
        }

    def executable(self, role: str, owner: psycopg.Connection[Any]) -> tuple[set[str], set[str]]:
        """The functions that *role* may call, and all that there are, without those of triggers."""
        rows = owner.execute(
            "select proname, has_function_privilege(%s, oid, 'execute') from pg_proc "
            "where pronamespace = %s::regnamespace and prorettype <> 'trigger'::regtype",
            [role, self.schema],
        ).fetchall()
        return {name for name, may in rows if may}, {name for name, _ in rows}

    def of_the_public(self, owner: psycopg.Connection[Any]) -> list[str]:
        """The tables and functions that anybody may use."""
        rows = owner.execute(
            "select relname from pg_class, aclexplode(relacl) as acl "
            "where relnamespace = %(schema)s::regnamespace and acl.grantee = 0 "
            "union all select p.oid::regprocedure::text "
            "from pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) as acl "
            "where pronamespace = %(schema)s::regnamespace and acl.grantee = 0",
            {"schema": self.schema},
        ).fetchall()
        return [row[0] for row in rows]

    def writable(self, owner: psycopg.Connection[Any], table: str) -> list[str]:
        """The columns that can be written at all."""
        rows = owner.execute(
            "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped "
            "and attidentity = '' and attgenerated = '' order by attnum",
            [f"{self.schema}.{table}"],
        ).fetchall()
        return [row[0] for row in rows]

    def statement(self, verb: str, table: str, column: str) -> str:
        """A statement that needs the right and touches no row."""
        name = f"{self.schema}.{table}"
        return {
            "select": f"select {column} from {name} limit 0",
            "insert": f"insert into {name} ({column}) select null where false",
            "update": f"update {name} set {column} = null where false",
            "delete": f"delete from {name} where false",
            "truncate": f"truncate {name} cascade",
        }[verb]


def allowed(connection: psycopg.Connection[Any], sql: str) -> bool:
    """Whether *connection* may run *sql*; whatever it did is rolled back."""
    try:
        connection.execute(sql)
    except psycopg.errors.InsufficientPrivilege:
        return False
    finally:
        connection.rollback()
    return True
