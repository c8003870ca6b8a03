"""The head of a script that somebody else will run: it changes nothing unless the database stands where it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.store.lines import Line

BASE: Final = "base"
# One migrator at a time: each locks the version table of the engine, which only its owner can lock against others. (An
# advisory lock could be held by any login.) The first one makes it; a second one that makes it at the same moment waits
# for the other's commit and finds it made. The owner of a schema need not have CREATE on the database, which `create
# schema if not exists` would ask for.
TAKE_TURN: Final = """\
do $turn$
begin
    for attempt in 1 .. 10 loop
        begin
            if to_regnamespace('penstock') is null then
                create schema penstock;
            end if;
            if to_regclass('penstock.schema_version') is null then
                create table penstock.schema_version (
                    version_num varchar(32) not null constraint schema_version_pkc primary key);
            end if;
            lock table penstock.schema_version in share row exclusive mode;
            return;
        exception when duplicate_schema or duplicate_table or unique_violation then
            continue;
        end;
    end loop;
    raise exception 'another migrator makes and removes the schema at the same time' using errcode = '55P03';
end
$turn$;
"""
_GUARD: Final = """\
do $guard$
declare
    found text := 'base';
begin
    if to_regclass('{schema}.schema_version') is not null then
        execute 'select coalesce(max(version_num), ''base'') from {schema}.schema_version' into found;
    end if;
    if found = '{end}' then
        raise exception 'this script takes {line} {way} from {start}, and {line} is at {end} already'
            using hint = 'Nothing was changed. Write a script with --line for each line that is not there yet.';
    elsif found <> '{start}' then
        raise exception 'this script takes {line} {way} from {start}, and {line} is at %', found
            using hint = 'Nothing was changed. Write the script with '
                || format('`penstock migrate {way} %s:{end} --line {line} --sql`.', found);
    end if;
{more}end
$guard$;

"""
_MAKE: Final = """\
    if to_regnamespace('{schema}') is null then
        create schema {schema};
    end if;
"""


def guard(line: Line, way: str, start: str, end: str) -> str:
    """The statement that refuses to take *line* from *start* to *end* when it stands elsewhere."""
    more = _MAKE.format(schema=line.schema) if way == "up" else ""
    return _GUARD.format(schema=line.schema, line=line.name, way=way, start=start, end=end, more=more)
