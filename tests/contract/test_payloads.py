"""What may be enqueued, and how the rest is refused."""

import dataclasses
import json
import math
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.errors import PayloadRejected
from penstock.contract.payloads import MAX_BYTES, MAX_DEPTH, clean_text, encode
from penstock.contract.texts import mask_dsn

CANARY = "canary-7f3a"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
STORABLE = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | STORABLE,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(STORABLE, inner, max_size=5),
    max_leaves=30,
)  # fmt: skip


def refusal(value: object, **limits: int) -> str:
    with pytest.raises(PayloadRejected) as caught:
        encode(value, **limits)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert CANARY not in str(caught.value)
    return str(caught.value)


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(PLAIN)
def test_whatever_json_holds_comes_back_as_it_went_in(value: object) -> None:
    assert json.loads(encode(value)) == value


@given(PLAIN)
def test_the_text_is_compact_and_valid_unicode(value: object) -> None:
    text = encode(value)

    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert text.encode().decode() == text


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Shape(Enum):
    ROUND = Decimal("1.50")


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Order:
    order_id: UUID
    lines: list[Any]
    note: str | None = None


class Picture(pydantic.BaseModel):
    picture_id: int
    taken: datetime
    tags: dict[str, str] = {}


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(minutes=2), 120.0),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Decimal("1.10"), "1.10"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Shape.ROUND, "1.50"),
        (Point(1, 2), [1, 2]),
        ((1, (2,)), [1, [2]]),
        (OrderedDict(a=1), {"a": 1}),
        ({Colour.RED: 1}, {"red": 1}),
        (Order(UUID(int=7), [Decimal(1)]), {"order_id": str(UUID(int=7)), "lines": ["1"], "note": None}),
        (Picture(picture_id=1, taken=NOON), {"picture_id": 1, "taken": "2026-01-02T12:00:00Z", "tags": {}}),
        ([Picture(picture_id=1, taken=NOON)], [{"picture_id": 1, "taken": "2026-01-02T12:00:00Z", "tags": {}}]),
        (None, None),
        ("text", "text"),
    ],
)
def test_other_types_are_stored_as_the_documentation_says(value: object, stored: object) -> None:
    assert json.loads(encode(value)) == stored


def test_the_callers_value_is_left_as_it_was() -> None:
    inner = OrderedDict(b=(1, 2))
    value = {"a": inner}

    encode(value)

    assert value == {"a": inner}
    assert type(value["a"]["b"]) is tuple


@pytest.mark.parametrize("text", ["\x00", f"{CANARY}\x00", "a\x00b"])
def test_a_nul_is_refused_by_position_and_without_the_content(text: str) -> None:
    assert refusal({"list": [1, {CANARY: text}]}) == (
        "payload at $.#1[1].#1 contains a NUL character; remove it before enqueueing"
    )


@pytest.mark.parametrize("text", ["\ud800", f"{CANARY}\udfff", "\udc80abc"])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    assert "payload at $.#2 contains a lone surrogate" in refusal({"a": 1, "b": text})


@pytest.mark.parametrize("key", [f"{CANARY}\x00", f"{CANARY}\ud800"])
def test_a_key_that_cannot_be_stored_is_refused_by_its_number(key: str) -> None:
    assert "(key 2)" in refusal({"a": 1, key: 2})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("-Infinity")])
def test_a_number_that_is_not_finite_is_refused(value: object) -> None:
    assert "is not a finite number" in refusal([value])


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**4000])
def test_an_integer_of_more_than_64_bits_is_refused(value: int) -> None:
    assert "more than 64 bits" in refusal({"n": value})
    assert "more than 64 bits" in refusal(value)


@pytest.mark.parametrize("key", [1, 1.5, None, True, (1,), b"k"])
def test_a_key_that_is_no_text_is_refused(key: object) -> None:
    assert f"has a key of type {type(key).__name__} (key 1)" in refusal({key: CANARY})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (CANARY.encode(), "is bytes; send base64"),
        ({CANARY}, "is a set, which has no order"),
        (object(), "is a object; send JSON types"),
        (Picture, "is a ModelMetaclass"),
        (Order, "is a type"),
        (lambda: None, "is a function"),
    ],
)
def test_a_type_that_json_has_not_is_refused_with_advice(value: object, reason: str) -> None:
    assert reason in refusal({"v": value})


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 1_100, 100_000])
def test_a_payload_nested_too_deep_is_refused_and_not_the_interpreter_broken(levels: int) -> None:
    assert f"nested deeper than {MAX_DEPTH} levels" in refusal(nested(levels))


def test_the_deepest_payload_allowed_is_taken() -> None:
    assert encode(nested(MAX_DEPTH)) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert encode(nested(500), max_depth=500)


def test_a_payload_that_holds_itself_is_refused() -> None:
    ring: list[object] = []
    ring.append({"again": ring})

    assert "nested deeper" in refusal(ring)


def test_a_payload_whose_parts_are_shared_a_billion_times_is_refused_quickly() -> None:
    value: object = "x"
    for _ in range(50):
        value = [value, value]

    assert "more than" in refusal(value)


@pytest.mark.parametrize("value", ["x" * MAX_BYTES, "ä" * (MAX_BYTES // 2), [0] * MAX_BYTES])
def test_a_payload_too_large_is_refused_with_its_size_and_the_way_out(value: object) -> None:
    message = refusal(value)

    assert str(MAX_BYTES) in message
    assert "enqueue its id" in message


def test_the_size_is_counted_in_bytes_as_stored() -> None:
    assert encode("x" * 8, max_bytes=10) == '"xxxxxxxx"'
    assert encode("ä" * 4, max_bytes=10)
    assert "is 11 bytes of JSON" in refusal("x" * 9, max_bytes=10)
    assert "is 12 bytes of JSON" in refusal("ä" * 5, max_bytes=10)


def test_a_backslash_that_only_looks_like_a_nul_is_taken() -> None:
    assert json.loads(encode({"path": "C:\\u0000"})) == {"path": "C:\\u0000"}


def test_declared_fields_are_named_because_they_are_code() -> None:
    picture = Picture(picture_id=1, taken=NOON, tags={CANARY: "\x00"})

    assert "payload at $.tags.#1 contains a NUL" in refusal(picture)
    assert "payload at $.lines[0] contains a NUL" in refusal(Order(UUID(int=7), [f"{CANARY}\x00"]))


def test_a_model_that_cannot_be_written_is_refused_without_its_own_words() -> None:
    class Broken(pydantic.BaseModel):
        secret: str

        @pydantic.field_serializer("secret")
        def _fail(self, value: str) -> str:
            raise ValueError(value)

    assert "model_dump(mode='json') cannot write" in refusal(Broken(secret=CANARY))


@given(st.recursive(st.text() | st.floats() | st.binary(), lambda i: st.dictionaries(st.text(), i), max_leaves=6))
def test_a_refusal_never_repeats_the_content(value: Any) -> None:
    marked = {CANARY: value, "v": f"{CANARY}\x00"}

    refusal(marked)


@given(st.text(), st.integers(1, 50))
def test_any_text_can_be_made_storable_and_short(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit)

    assert len(cleaned) <= limit
    assert "\x00" not in cleaned
    assert cleaned.encode().decode() == cleaned


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=50))
def test_a_text_without_fault_stays_as_it_is(text: str) -> None:
    assert clean_text(text, 50) == text


def test_faults_are_escaped_where_they_can_be_seen() -> None:
    assert clean_text("a\x00b\ud800c\x1b[31m\n", 100) == "a\\x00b\\ud800c\\x1b[31m\n"
    assert clean_text("abcdef", 4) == "abc…"


async def test_what_is_encoded_or_cleaned_is_what_postgresql_takes(dsn: str) -> None:
    hostile = "".join(chr(code) for code in range(0x250)) + "\ud800\udfff\ufffe\U0010ffff"
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        stored = await connection.execute("select %s::text", [clean_text(hostile, 5000)])
        assert await stored.fetchone() == (clean_text(hostile, 5000),)
        widest = encode({"n": 2**64 - 1, "m": -(2**63), "x": 1.5e300, "t": "\U0010ffff\ufffe\x7f"})
        stored = await connection.execute("select %s::jsonb", [widest])
        row = await stored.fetchone()
        assert row is not None
        assert {**row[0], "x": float(row[0]["x"])} == json.loads(widest)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p:w@rd@host:5432/db", "postgresql://u:***@host:5432/db"),
        ("postgresql://host/db?user=u&password=pw&sslmode=on", "postgresql://host/db?user=u&password=***&sslmode=on"),
        ("host=h password='p w' user=u", "host=h password=*** user=u"),
        ("postgresql://u@host/db", "postgresql://u@host/db"),
        ("postgresql://u:59/p?w#@host/db", "postgresql://u:***@host/db"),
    ],
)
def test_a_dsn_is_shown_without_its_password(url: str, shown: str) -> None:
    assert mask_dsn(url) == shown
