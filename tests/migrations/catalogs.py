"""What a schema is made of, as the server tells it, so that two schemas can be compared."""

from typing import Any

import psycopg

QUESTIONS = {
    "columns": """
        select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
               pg_get_expr(d.adbin, d.adrelid)
          from pg_class c join pg_attribute a on a.attrelid = c.oid left join pg_attrdef d
               on d.adrelid = c.oid and d.adnum = a.attnum
         where c.relnamespace = %(schema)s::regnamespace and a.attnum > 0 and not a.attisdropped
           and c.relkind in ('r', 'v')
         order by c.relname, a.attnum""",
    "relations": """
        select relname, relkind, relpersistence, relrowsecurity, relforcerowsecurity, reloptions,
               coalesce(relacl, acldefault(case relkind when 'S' then 's'::"char" else 'r' end, relowner))::text,
               pg_get_userbyid(relowner)
          from pg_class where relnamespace = %(schema)s::regnamespace order by relname""",
    "constraints": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid)
          from pg_constraint where connamespace = %(schema)s::regnamespace order by 1, 2""",
    "indexes": "select indexname, indexdef from pg_indexes where schemaname = %(schema)s order by 1",
    "triggers": """
        select t.tgrelid::regclass::text, t.tgname, pg_get_triggerdef(t.oid), t.tgenabled
          from pg_trigger t join pg_class c on c.oid = t.tgrelid
         where c.relnamespace = %(schema)s::regnamespace and not t.tgisinternal order by 1, 2""",
    "functions": """
        select oid::regprocedure::text, pg_get_functiondef(oid), proacl::text, pg_get_userbyid(proowner)
          from pg_proc where pronamespace = %(schema)s::regnamespace order by 1""",
    "views": "select viewname, definition from pg_views where schemaname = %(schema)s order by 1",
    "types": """
        select typname, typtype from pg_type where typnamespace = %(schema)s::regnamespace order by 1""",
    "privileges": "select array(select a::text from unnest(nspacl) a order by 1) from pg_namespace where "
    "nspname = %(schema)s",
}


def catalog(dsn: str, schema: str = "penstock") -> dict[str, list[Any]]:
    """Everything that *schema* holds, in an order of its own; empty lists when there is no such schema."""
    with psycopg.connect(dsn) as connection:
        if not connection.execute("select to_regnamespace(%s) is not null", [schema]).fetchall()[0][0]:
            return {}
        return {name: connection.execute(sql, {"schema": schema}).fetchall() for name, sql in QUESTIONS.items()}
