"""Nothing sensitive leaves through an error."""

import json
import sys
import time
from typing import Any

import asyncpg
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.telemetry.redaction import (
    redact_stack,
    redact_text,
)

ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
SECRETS = [
    "sk-proj-Abcdefghijklmnop12345678",
    "sk_live_abcdefghijklmnopqrstuvwx",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "xoxb-1234567890-abcdefghij",
    "AIzaSyD-abcdefghijklmnopqrstuvwxyz012345",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "re_AbCdEfGh_123456789012345678901234",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1",
]
CONTEXTS = [
    "{}",
    "key {} refused",
    "Authorization: Bearer {}",
    "'{}'",
    "url?key={}",
    "({})",
    "{}, and more",
    "x\n{}\ny",
]


@pytest.mark.contract("E-31", "C-52")
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_key_or_token_is_masked_wherever_it_stands(secret: str, context: str) -> None:
    shown = redact_text(context.format(secret))

    assert secret not in shown
    assert secret[6:] not in shown


@pytest.mark.contract("E-30", "E-31")
@given(
    prefix=st.sampled_from(["sk-", "Bearer ", "token=", "password: ", "api_key='", 'secret="', "AKIA", "whsec_"]),
    secret=st.text(ALNUM, min_size=20, max_size=60),
    around=st.text(max_size=40),
)
def test_a_secret_behind_its_usual_sign_never_shows(prefix: str, secret: str, around: str) -> None:
    assume(secret not in around)

    assert secret not in redact_text(f"{around} {prefix}{secret} {around}")


PLACES = ["{}", "to <{}>", "'{}'", '"{}"', "({})", "Key (email)=({}) exists", "mailto:{}", "{};{}", "{}?subject=x"]
PLACES += ["sk-abcdefghijk!{}", "-----BEGIN A-----x-----END A-----{}"]  # behind what is masked for another reason


@pytest.mark.contract("E-30", "C-52")
@given(
    user=st.text("abcdefghijklmnopqrstuvwxyzäöüß0123456789._+-", min_size=3, max_size=30),
    host=st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=3, max_size=20),
    around=st.sampled_from(PLACES),
)
def test_an_address_never_shows(user: str, host: str, around: str) -> None:
    address = f"{user}@{host}.example"
    shown = redact_text(around.replace("{}", address))

    assert address not in shown
    assert f"@{host}" not in shown


@pytest.mark.contract("E-30")
@pytest.mark.parametrize(
    "text",
    [
        "+49 170 1234567",
        "(555) 123-4567",
        "0041 44 668 18 00",
        "4111 1111 1111 1111",
        "user 5551234567 called",
        "'+1-202-555-0143'",
    ],
)
def test_a_number_of_a_person_is_masked(text: str) -> None:
    shown = redact_text(text)

    assert "[number]" in shown
    assert sum(character.isdigit() for character in shown) == 0


@pytest.mark.contract("E-31", "C-52")
@pytest.mark.parametrize("mark", ["'", '"', "`"])
def test_a_long_quoted_literal_is_masked_and_its_length_told(mark: str) -> None:
    text = f"cannot parse {mark}my neighbour plays loud music{mark} as JSON"

    assert redact_text(text) == f"cannot parse {mark}[text of 29]{mark} as JSON"


@pytest.mark.contract("E-31", "C-52")
@pytest.mark.parametrize(
    "text",
    [
        "can't parse 'my neighbour plays loud music' as JSON",
        "cannot parse 'my neighbour's loud music isn't nice' as JSON",
        "cannot parse b'my neighbour plays loud music' as JSON",
        "cannot parse \"it's my neighbour's loud music\" as JSON",
    ],
)
def test_an_apostrophe_neither_opens_nor_closes_a_literal(text: str) -> None:
    shown = redact_text(text)

    assert "neighbour" not in shown
    assert "loud" not in shown
    assert shown.endswith(" as JSON")


@pytest.mark.contract("E-31")
def test_a_secret_behind_an_address_does_not_show() -> None:
    assert redact_text("sent to bob@home.example?token=opensesame") == "sent to [email]?token=[secret]"


@pytest.mark.contract("E-31")
def test_a_stray_quote_does_not_hide_the_sign_of_a_secret() -> None:
    assert "hunter2" not in redact_text("can't use 'x api_key='hunter2'")


@pytest.mark.contract("E-31")
def test_a_literal_that_was_cut_off_is_masked_to_its_end() -> None:
    assert "neighbour" not in redact_text("cannot parse 'my neighbour plays loud mus")


@pytest.mark.contract("E-31")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p@host:5432/db?x=1", "postgresql://[credentials]@host:5432/[path]"),
        ("https://api.example/v1/files/abc?sig=xyz", "https://api.example/[path]"),
        ("host=h password=hunter2 user=u", "host=h password=[secret] user=u"),
        ("{'client_secret': 'abc', 'a': 1}", "{client_secret=[secret], 'a': 1}"),
        ("input_value='bob', input_type=str", "input_value=[secret], input_type=str"),
        ("Key (name)=(Bob) already exists.", "Key (name)=([values]) already exists."),
        ("null value\nDETAIL:  Failing row contains (1, Bob).", "null value\nDETAIL: [detail]"),
        ('invalid input syntax for type integer: "bob"', "invalid input syntax for type integer: [detail]"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "[key]"),
    ],
)
def test_credentials_in_urls_settings_and_server_messages_are_masked(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "stale_claim_requeued",
        "job 123e4567-e89b-12d3-a456-426614174000 failed with status 503 after 1234 ms",
        'column "picture_title_in_full" of relation "pictures" does not exist',
        "at 2026-02-14 10:11:12 attempt 3 of 5",
        "'NoneType' object has no attribute 'title'",
        "src/penstock/contract/failure_signals.py",
    ],
)
def test_what_an_operator_needs_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.contract("E-31")
@given(st.text(), st.integers(1, 200))
def test_any_text_comes_out_storable_and_short(text: str, limit: int) -> None:
    shown = redact_text(text, limit)

    assert len(shown) <= limit
    assert "\x00" not in shown
    assert shown.encode().decode() == shown


HOSTILE = [
    "token",
    " 'a",
    '"b',
    "a",
    "x@",
    "sk-",
    "password ",
    "''",
    "=(1",
    "1-",
    "a:",
    "a://",
    "Bearer ",
    "'",
    "-----BEGIN A-----",
]


@pytest.mark.parametrize("length", [1_000_000, 16_000], ids=["cut", "whole"])
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_text_made_to_be_slow_is_not(piece: str, length: int) -> None:
    text = piece * (length // len(piece))
    started = time.process_time()

    for _ in range(10):
        redact_text(text)

    assert time.process_time() - started < 1


@pytest.mark.contract("E-31")
def test_a_key_cut_in_two_by_the_limit_does_not_show_its_first_half() -> None:
    text = "word " * 3_275 + "sk-proj-Abcdefghijklmnop12345678"

    assert "sk-" not in redact_text(text, 20_000)


CANARY = "canary@home.example"


def thrown(error: Exception) -> Exception:
    try:
        raise error  # noqa: TRY301 - it is thrown for its traceback
    except Exception as caught:
        return caught


def thrown_from(error: Exception, cause: Exception) -> Exception:
    try:
        raise error from cause  # noqa: TRY301 - it is thrown for its traceback
    except Exception as caught:
        return caught


@pytest.mark.contract("E-28", "E-31")
def test_a_stack_names_types_frames_and_codes() -> None:
    broken = thrown(asyncpg.UniqueViolationError(f"Key (email)=({CANARY}) already exists."))
    stack = redact_stack(thrown_from(LookupError("no picture"), broken), messages=True)

    lines = stack.splitlines()
    assert lines[0] == "LookupError: no picture"
    assert lines[1].startswith("  at tests/telemetry/test_redaction.py:")
    assert lines[1].endswith(" in thrown_from")
    assert (
        lines[2]
        == "caused by: asyncpg.exceptions.UniqueViolationError [SQLSTATE 23505]: Key (email)=([values]) already exists."
    )
    assert CANARY not in stack


@pytest.mark.contract("E-31", "C-52")
def test_a_key_in_an_exceptions_message_is_masked_in_the_stored_stack() -> None:
    stack = redact_stack(thrown(ValueError("bad key sk-proj-Abcdefghijklmnop12345678")), messages=True)

    assert stack.startswith("ValueError: bad key [token]\n")


@pytest.mark.contract("C-52", "E-31")
@given(st.text(min_size=12))
def test_without_messages_not_a_word_of_one_shows(words: str) -> None:
    canary = f"[{words}]"
    inner = thrown(ValueError(canary))
    group = ExceptionGroup(canary, [thrown_from(KeyError(canary), inner), OSError(canary)])
    group.add_note(canary)

    stack = redact_stack(thrown_from(RuntimeError(canary), group), messages=False)

    assert canary not in stack
    assert "RuntimeError" in stack
    assert "one of them: KeyError" in stack
    assert "caused by: ValueError" in stack


@pytest.mark.contract("E-31")
def test_no_directory_of_this_machine_shows() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        stack = redact_stack(error, messages=False)

    assert "  at json/decoder.py:" in stack
    assert sys.prefix not in stack
    assert " /" not in stack


def test_a_chain_that_bites_its_own_tail_ends() -> None:
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first

    assert redact_stack(first, messages=True) == "ValueError: one\ncaused by: ValueError: two"


def test_what_was_being_handled_is_named_unless_it_was_suppressed() -> None:
    error = LookupError()
    error.__context__ = TimeoutError()
    assert redact_stack(error, messages=True) == "LookupError\nwhile handling: TimeoutError"

    error.__suppress_context__ = True
    assert redact_stack(error, messages=True) == "LookupError"


def test_a_thousand_frames_and_a_thousand_causes_stay_short() -> None:
    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        raise ValueError("x" * 5000)

    error: Exception = ValueError()
    try:
        deeper(500)
    except ValueError as caught:
        error = caught
    for _ in range(1000):
        error = thrown_from(ValueError(), error)

    assert len(redact_stack(error, messages=True)) <= 8000
    assert len(redact_stack(error, messages=True, limit=100)) == 100


class Hostile(Exception):
    """Even its text raises, and its name was made up by somebody."""

    def __str__(self) -> str:
        raise RuntimeError(CANARY)


def test_an_error_whose_text_raises_is_still_shown() -> None:
    assert redact_stack(Hostile(), messages=True) == "tests.telemetry.test_redaction.Hostile"


def test_made_up_names_of_types_files_and_functions_do_not_show() -> None:
    made_up: type[Exception] = type(CANARY, (Exception,), {})
    namespace: dict[str, Any] = {"__name__": CANARY, "error": made_up}
    code = compile("raise error()", f"/home/{CANARY}/{CANARY} notes", "exec")

    try:
        exec(code.replace(co_name=CANARY, co_qualname=CANARY), namespace)  # noqa: S102 - the hostile case
    except made_up as error:
        stack = redact_stack(error, messages=True)

    assert CANARY not in stack
    assert "  at ?:1 in ?" in stack
