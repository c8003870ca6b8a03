"""Arrays of PostgreSQL's own types are known or asked about once, types that somebody made by each connection."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock.store import array_types, connect

IDS = [UUID(int=1), UUID(int=2)]
ASKED = "select $1::uuid[] as ids, $2::bigint[] as numbers, array['a', null]::varchar[] as words"


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What the driver asks the catalogs about, as in a process that has just begun."""
    asked: list[set[int]] = []
    ask = asyncpg.Connection._introspect_types  # type: ignore[attr-defined]  # private, so not in its types

    async def noted(connection: Any, typeoids: Iterable[int], timeout: Any) -> Any:  # noqa: ASYNC109 - the driver's
        asked.append(set(typeoids))
        return await ask(connection, typeoids, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", noted)
    monkeypatch.setattr(array_types, "_answers", dict(array_types._answers))
    return asked


async def answered(dsn: str, statement: str, *arguments: object, prepared: bool = True) -> list[Any]:
    """What a new connection gets, the first time and the second."""
    connection = await connect.connect(dsn, prepared=prepared)
    try:
        first, second = [await connection.fetchrow(statement, *arguments) for _ in range(2)]
    finally:
        await connection.close()
    assert first == second
    assert first is not None
    return list(first.values())


@pytest.mark.parametrize("prepared", [True, False])
async def test_the_second_connection_asks_nothing_about_arrays_and_reads_the_same(
    dsn: str, questions: list[set[int]], prepared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_types, "_answers", {})
    expected = [IDS, [3, 4], ["a", None]]
    assert await answered(dsn, ASKED, IDS, [3, 4], prepared=prepared) == expected
    assert len(questions) >= 1
    questions.clear()

    assert await answered(dsn, ASKED, IDS, [3, 4], prepared=prepared) == expected
    assert await answered(dsn, "select $1::uuid[]", IDS, prepared=prepared) == [IDS]
    assert questions == []


async def test_a_type_that_somebody_made_is_asked_about_by_every_connection(
    dsn: str, questions: list[set[int]]
) -> None:
    owner = await connect.connect(dsn)
    await owner.execute("create type mood as enum ('fine'); create type place as (name text, at bigint[])")
    await owner.close()
    for statement, expected in (("select array['fine']::mood[]", ["fine"]), ("select ('x', '{1}')::place", ("x", [1]))):
        for _ in range(2):
            questions.clear()
            [found] = await answered(dsn, statement)
            assert (tuple(found) if isinstance(expected, tuple) else found) == expected
            assert questions != []


async def test_what_is_known_from_the_start_is_what_the_server_says(dsn: str) -> None:
    owner = await connect.connect(dsn)
    told = await owner.fetch(
        """select a.oid, e.typname, a.typelem, a.typdelim from pg_type a join pg_type e on e.oid = a.typelem
           where a.oid = any($1::oid[])""",
        list(array_types.KNOWN),
    )
    await owner.close()
    assert {oid: (name, element) for oid, name, element, _ in told} == array_types.KNOWN
    assert {delimiter for *_, delimiter in told} == {b","}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bool", [True, None]), ("bytea", [b"\0x"]), ("int2", [-1]), ("int4", [7]), ("text", ["a,b", '"']),
        ("varchar", ["v"]), ("int8", [1 << 40]), ("timestamptz", [datetime(2026, 1, 2, tzinfo=UTC)]),
        ("interval", [timedelta(days=1, seconds=2)]), ("uuid", IDS), ("jsonb", ['{"a": 1}']),
    ],
)  # fmt: skip
async def test_a_process_that_has_just_begun_asks_nothing_about_what_is_known(
    dsn: str, questions: list[set[int]], kind: str, values: list[object]
) -> None:
    assert kind in dict(array_types.KNOWN.values())
    assert await answered(dsn, f"select $1::{kind}[], ($1::{kind}[])[1]", values) == [values, values[0]]
    assert questions == []
