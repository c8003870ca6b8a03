"""Everything that can be wrong with a job is refused before anything is written, in words that repeat none of it."""

from __future__ import annotations

import asyncio
import json
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import asyncpg
import psycopg
import pytest
from pydantic import BaseModel
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from penstock import Penstock
from penstock.contract.errors import (
    DatabaseUnavailable,
    EnqueueRefused,
    PayloadRejected,
    SchemaOutdated,
    SettingsInvalid,
    UnknownType,
)
from tests.engine.enqueue.callers import alchemy_url
from tests.engine.enqueue.conftest import Office

CANARY = "my neighbour is too loud"


class Picture(BaseModel):
    picture_id: int
    sizes: dict[str, int] = {}


@dataclass
class Point:
    x: int
    y: int = 0


def typed(app: Penstock) -> Penstock:
    @app.job("thumbnail")
    async def thumbnail(args: Picture) -> None: ...

    @app.job("plot")
    def plot(args: Point) -> None: ...

    return app


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


WRONG: list[tuple[str, type[Exception], str, tuple[Any, ...], dict[str, Any]]] = [
    ("a type nobody declared", UnknownType, "not registered", ("nowhere",), {}),
    ("a name that is none", UnknownType, "not registered", ("no\x00where",), {}),
    ("a name with a line feed", UnknownType, "not registered", ("noop\n",), {}),
    ("a type that is no name", EnqueueRefused, "its name", (42,), {}),
    ("a NUL", PayloadRejected, "NUL", ("noop", {"t": f"{CANARY}\x00"}), {}),
    ("a lone surrogate", PayloadRejected, "surrogate", ("noop", {"t": f"{CANARY}\ud800"}), {}),
    ("a NUL in a key", PayloadRejected, "NUL", ("noop", {f"{CANARY}\x00": 1}), {}),
    ("too large", PayloadRejected, "limit", ("noop", {"t": CANARY * 20_000}), {}),
    ("too deep", PayloadRejected, "deeper", ("noop", deep(100)), {}),
    ("far too deep", PayloadRejected, "deeper", ("noop", deep(100_000)), {}),
    ("bytes", PayloadRejected, "bytes", ("noop", {"t": CANARY.encode()}), {}),
    ("not a number", PayloadRejected, "finite", ("noop", {"t": float("nan")}), {}),
    ("an empty key", EnqueueRefused, "1 to 400", ("noop",), {"key": ""}),
    ("a long key", EnqueueRefused, "1 to 400", ("noop",), {"key": CANARY * 100}),
    ("a key with a NUL", EnqueueRefused, "NUL", ("noop",), {"key": f"{CANARY}\x00"}),
    ("a key with a surrogate", EnqueueRefused, "surrogate", ("noop",), {"key": f"{CANARY}\udfff"}),
    ("a key that is a number", EnqueueRefused, "is text", ("noop",), {"key": 7}),
    ("a limit key with a NUL", EnqueueRefused, "limit key", ("noop",), {"limit_key": f"{CANARY}\x00"}),
    ("an empty limit key", EnqueueRefused, "limit key", ("noop",), {"limit_key": ""}),
    ("a long limit key", EnqueueRefused, "limit key", ("noop",), {"limit_key": CANARY * 100}),
    ("a time without a zone", EnqueueRefused, "time zone", ("noop",), {"run_at": datetime(2030, 1, 1)}),  # noqa: DTZ001
    ("a text for a time", EnqueueRefused, "aware datetime", ("noop",), {"run_at": CANARY}),
    ("an absurd time", EnqueueRefused, "days ahead", ("noop",), {"run_at": datetime(9000, 1, 1, tzinfo=UTC)}),
    ("a negative delay", EnqueueRefused, "negative", ("noop",), {"delay": -1}),
    ("an absurd delay", EnqueueRefused, "more than", ("noop",), {"delay": timedelta.max}),
    ("an endless delay", EnqueueRefused, "timedelta", ("noop",), {"delay": float("inf")}),
    ("a delay that is no number", EnqueueRefused, "timedelta", ("noop",), {"delay": float("nan")}),
    ("a huge delay", EnqueueRefused, "timedelta", ("noop",), {"delay": 1e300}),
    ("a delay beyond every number", EnqueueRefused, "timedelta", ("noop",), {"delay": 10**400}),
    ("a delay too long to spell", EnqueueRefused, "more than 64 bits", ("noop",), {"delay": 10**5000}),
    ("a priority too long to spell", EnqueueRefused, "more than 64 bits", ("noop",), {"priority": 10**5000}),
    ("a text for a delay", EnqueueRefused, "timedelta", ("noop",), {"delay": CANARY}),
    ("two times", EnqueueRefused, "not both", ("noop",), {"delay": 1, "run_at": datetime.now(UTC)}),
    ("a priority above", EnqueueRefused, "priority", ("noop",), {"priority": 32_768}),
    ("a priority below", EnqueueRefused, "priority", ("noop",), {"priority": -40_000}),
    ("a fraction of a priority", EnqueueRefused, "priority", ("noop",), {"priority": 1.5}),
    ("a priority that is a text", EnqueueRefused, "priority", ("noop",), {"priority": CANARY}),
    ("arguments that do not fit a model", PayloadRejected, "picture_id", ("thumbnail", {"picture_id": CANARY}), {}),
    ("a missing argument", PayloadRejected, r"picture_id \(missing\)", ("thumbnail", {}), {}),
    ("no object", PayloadRejected, "Picture", ("thumbnail", [CANARY]), {}),
    (
        "a map with wrong values",
        PayloadRejected,
        r"sizes\.\*",
        ("thumbnail", {"picture_id": 1, "sizes": {CANARY: "x"}}),
        {},
    ),
    ("arguments that do not fit a dataclass", PayloadRejected, r"x \(int", ("plot", {"x": CANARY}), {}),
]


@pytest.mark.parametrize(
    ("error", "says", "arguments", "options"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
async def test_a_wrong_job_is_refused_and_nothing_is_written(
    office: Office, error: type[Exception], says: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    typed(office.app)

    with pytest.raises(error, match=says) as caught:
        await office.app.enqueue(*arguments, **options)
    with pytest.raises(error, match=says):
        await asyncio.to_thread(lambda: office.app.enqueue_sync(*arguments, **options))

    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in repr(caught.value.__context__), "a log that walks the contexts would find it"
    assert await office.count() == 0
    assert await office.pokes() == []


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        (("noop", [{"n": 1}, {"t": f"{CANARY}\x00"}]), {}, "NUL"),
        (("noop", [{"n": n} for n in range(4000)] + [{"t": b""}]), {}, "bytes"),
        (("noop", [{"n": 1}, {"n": 2}]), {"keys": ["a"]}, "1 entries for 2 payloads"),
        (("noop", [{"n": 1}]), {"keys": "a"}, "give one each"),
        (("noop", [{"n": 1}]), {"limit_keys": ["a", "b"]}, "2 entries for 1 payloads"),
        (("noop", [{"n": 1}]), {"limit_keys": ["\x00"]}, "NUL"),
        (("noop", {"n": 1}), {}, "one payload per job"),
        (("noop", CANARY), {}, "one payload per job"),
        (("noop", [{"n": 1}]), {"priority": 99_999}, "priority"),
        (("noop", [{"n": 1}]), {"delay": -5}, "negative"),
        (("nowhere", [{"n": 1}]), {}, "not registered"),
    ],
)
async def test_a_wrong_bulk_is_refused_whole(
    office: Office, arguments: tuple[Any, ...], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(EnqueueRefused, match=says) as caught:
        await office.app.enqueue_many(*arguments, **options)
    async with office.app.transaction() as tx:
        with pytest.raises(EnqueueRefused, match=says):
            await office.app.enqueue_many(*arguments, connection=tx, **options)

    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert await office.count() == 0


async def test_typed_arguments_are_stored_as_their_handler_will_read_them(office: Office) -> None:
    app = typed(office.app)

    model = await app.enqueue("thumbnail", Picture(picture_id=42, sizes={"s": 1}))
    plain = await app.enqueue("thumbnail", {"picture_id": 42})
    point = await app.enqueue("plot", Point(3, 4))
    many = await app.enqueue_many("thumbnail", [Picture(picture_id=1), {"picture_id": 2}])

    assert await office.payload(model) == {"picture_id": 42, "sizes": {"s": 1}}
    assert await office.payload(plain) == {"picture_id": 42}
    assert await office.payload(point) == {"x": 3, "y": 4}
    assert [(await office.payload(job_id))["picture_id"] for job_id in many] == [1, 2]


async def test_what_the_database_alone_knows_is_refused_too(office: Office) -> None:
    """Another process declared the type: its limits are in the database and not here."""
    async with office.another() as stranger:
        await office.owner.execute("update penstock.types set max_payload_bytes = 100 where job_type = 'noop'")
        with pytest.raises(PayloadRejected, match="max_payload_bytes"):
            await stranger.enqueue("noop", {"t": "x" * 200})
        with pytest.raises(PayloadRejected, match="max_payload_bytes"):
            await stranger.enqueue_many("noop", [{"n": 1}, {"t": "x" * 200}])
        await office.owner.execute(
            "update penstock.types set max_payload_bytes = 1000, enqueue_role = 'penstock_operator' "
            "where job_type = 'noop'"
        )
        with pytest.raises(EnqueueRefused, match="may not enqueue"):
            await stranger.enqueue("noop", {"n": 1})
        with pytest.raises(EnqueueRefused, match="may not enqueue"):
            await stranger.enqueue_many("noop", [{"n": 1}])

    assert await office.count() == 0


async def test_a_payload_that_just_fits_here_is_not_refused_by_the_database(office: Office) -> None:
    """Numbers are longer in jsonb, and texts where PostgreSQL writes spaces: neither counts against a caller."""

    @office.app.job("tight", max_payload_bytes=2_000)
    async def tight(args: Any) -> None: ...

    await office.app.enqueue("tight", list(range(500)))
    await office.app.enqueue("tight", "x" * 1_998)
    with pytest.raises(PayloadRejected):
        await office.app.enqueue("tight", "x" * 1_999)


@pytest.mark.contract("Q-43")
async def test_a_due_time_of_any_zone_is_the_same_moment(office: Office) -> None:
    moment = datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
    elsewhere = moment.astimezone(timezone(timedelta(hours=5, minutes=45)))

    one = await office.app.enqueue("noop", {}, run_at=elsewhere)
    (many,) = await office.app.enqueue_many("noop", [{}], run_at=elsewhere)

    assert (await office.job(one))["run_at"] == moment == (await office.job(many))["run_at"]
    await office.owner.execute("set time zone 'Asia/Kathmandu'")
    assert (await office.job(one))["run_at"].isoformat() == "2027-03-28T01:30:00+00:00"


async def test_a_server_that_is_away_and_a_schema_that_is_missing_say_so(office: Office) -> None:
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        await Penstock("postgresql://nobody@127.0.0.1:1/nothing").enqueue("noop", {})
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        await asyncio.to_thread(lambda: Penstock("postgresql://nobody@127.0.0.1:1/nothing").enqueue_sync("noop", {}))

    await office.owner.execute("alter schema penstock rename to elsewhere")
    raw = await asyncpg.connect(office.dsn)
    for connection in (None, raw):
        with pytest.raises(SchemaOutdated, match="penstock migrate up"):
            await office.app.enqueue("noop", {}, connection=connection)
    await raw.close()


async def test_a_driver_that_was_set_to_convert_json_changes_nothing(office: Office) -> None:
    raw = await asyncpg.connect(office.dsn)
    await raw.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await raw.set_type_codec("uuid", encoder=str, decoder=str, schema="pg_catalog")

    job_id = await office.app.enqueue("noop", {"n": 1}, connection=raw)
    many = await office.app.enqueue_many("noop", [{"n": 2}], keys=["k"], connection=raw)

    assert await office.payload(job_id) == {"n": 1}
    assert await office.payload(many[0]) == {"n": 2}
    await raw.close()


async def test_an_error_that_the_caller_must_retry_keeps_the_payload_to_itself(office: Office) -> None:
    """SQLAlchemy shows the arguments of a statement in its errors; they are hidden, and the error stays its own."""
    engine = create_async_engine(
        alchemy_url(office.dsn, "asyncpg"), poolclass=NullPool, isolation_level="REPEATABLE READ"
    )
    async with AsyncSession(engine) as session:
        await session.execute(text("select count(*) from penstock.jobs"))
        await office.app.enqueue("noop", {"t": CANARY}, key="k")
        with pytest.raises(DBAPIError) as caught:
            await office.app.enqueue("noop", {"t": CANARY}, key="k", connection=session)
    await engine.dispose()

    assert getattr(caught.value.orig, "sqlstate", None) == "40001"
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in repr(vars(caught.value))


async def test_what_only_the_server_found_wrong_is_told_by_its_code(office: Office) -> None:
    await office.owner.execute("alter table penstock.jobs add check (payload->>'t' is null)")
    raw = await asyncpg.connect(office.dsn)
    for connection in (None, raw):
        with pytest.raises(EnqueueRefused, match="SQLSTATE 23514") as caught:
            await office.app.enqueue("noop", {"t": CANARY}, connection=connection)
        assert CANARY not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__context__ is None, "the driver's own error shows the row"
    await raw.close()


@pytest.mark.parametrize("kind", ["psycopg", "alchemy"])
def test_text_that_the_connection_cannot_write_is_refused_without_it(dsn: str, kind: str) -> None:
    app = Penstock(dsn)
    with psycopg.connect(dsn, client_encoding="LATIN1") as raw:
        engine = create_engine("postgresql+psycopg://", creator=lambda: raw, poolclass=NullPool)
        connection: Any = raw if kind == "psycopg" else engine.connect()
        for enqueue in (
            lambda: app.enqueue_sync("noop", {"t": f"{CANARY} €"}, connection=connection),
            lambda: app.enqueue_many_sync("noop", [{"t": f"{CANARY} €"}], connection=connection),
        ):
            with pytest.raises(PayloadRejected, match="client_encoding") as caught:
                enqueue()
            assert CANARY not in repr(caught.value)
            assert caught.value.__context__ is None
        if connection is not raw:
            connection.close()
    app.close_sync()


def test_a_line_feed_is_no_part_of_a_name() -> None:
    app = Penstock("postgresql://nowhere.invalid/none")
    for declare in (app.job, app.function):
        with pytest.raises(SettingsInvalid, match="lower-case letters"):
            declare("abc\n")(lambda: None)


@pytest.mark.parametrize("kind", [Connection, Session])
async def test_a_bulk_in_autocommit_is_refused_because_it_would_not_be_all_or_none(office: Office, kind: Any) -> None:
    engine = create_engine(alchemy_url(office.dsn, "psycopg"), isolation_level="AUTOCOMMIT", poolclass=NullPool)

    def enqueue() -> None:
        with engine.connect() if kind is Connection else Session(engine) as connection:
            office.app.enqueue_sync("noop", {"n": 1}, connection=connection)
            with pytest.raises(EnqueueRefused, match="AUTOCOMMIT"):
                office.app.enqueue_many_sync("noop", [{"n": 2}, {"n": 3}], connection=connection)

    await asyncio.to_thread(enqueue)
    assert await office.count() == 1
