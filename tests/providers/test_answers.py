"""An answer is untrusted: what cannot be stored, read or fitted to its schema is refused whole."""

from __future__ import annotations

import pytest

from penstock.contract.calls import Answer
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass as F
from penstock.providers.answers import MAX_TEXT, fit, moment
from tests.providers.clock import NOW
from tests.providers.kinds import Kind, each_kind
from tests.providers.support import SCHEMA, Script, adapters, answer, request

BAD = {
    "too large": '{"text": "' + "a" * MAX_TEXT + '"}',
    "too many bytes": '{"text": "' + "é" * (MAX_TEXT // 2 + 1) + '"}',
    "a NUL": '{"text": "a\x00b"}',
    "an escaped NUL": '{"text": "a\\u0000b"}',
    "a lone surrogate": '{"text": "\ud800"}',
    "an escaped lone surrogate": '{"text": "\\ud800"}',
    "an escaped NUL in a key": '{"text": "a", "\\u0000": 1}',
    "not JSON": "Sure! Here is your translation",
    "fenced": '```json\n{"text": "a"}\n```',
    "half of it": '{"text": "a',
    "empty": "",
    "another type": '{"text": 1}',
    "a field missing": "{}",
    "a field too many": '{"text": "a", "more": 1}',
    "a list": '[{"text": "a"}]',
    "no number": '{"text": NaN}',
    "deep": "[" * 100_000,
}


@each_kind
@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
async def test_a_bad_answer_is_refused_as_not_fitting(kind: Kind, text: str) -> None:
    script = Script({kind.path: answer(kind.good(text))})
    asked = request(kind.name)
    with pytest.raises(Failed) as raised:
        await adapters(script).get(asked.route).call(asked, seconds=5)
    assert raised.value.error_class is F.SCHEMA_INVALID
    assert text not in str(raised.value) or not text


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "https://elsewhere.example/schema"}, {"type": 1}])
def test_a_schema_that_is_wrong_is_our_configuration(schema: dict[str, object]) -> None:
    with pytest.raises(Failed) as raised:
        fit(Answer(text="{}"), schema)
    assert raised.value.error_class is F.CONFIG_INVALID


def test_text_that_holds_a_backslash_and_a_u_is_no_escape() -> None:
    assert fit(Answer(text='{"text": "\\\\u0000"}'), SCHEMA).data == {"text": "\\u0000"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_794_744_000, NOW),
        ("2026-11-15T12:00:00Z", NOW),
        ("2026-11-15T12:00:00", NOW),
        ("2026-11-15T13:00:00+01:00", NOW),
        (True, None),
        (-1, None),
        (10**30, None),
        ("soon", None),
        (None, None),
        (float("nan"), None),
    ],
)
def test_times_are_read_in_every_form_and_never_raise(value: object, expected: object) -> None:
    assert moment(value) == expected
