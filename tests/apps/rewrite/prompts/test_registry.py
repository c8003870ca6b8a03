"""The versions there are, and data files that are not whole."""

from __future__ import annotations

from importlib.resources import files

import pytest

from penstock.apps.rewrite.prompts import prompt, versions
from penstock.apps.rewrite.prompts.registry import parsed
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass, is_retryable

TEXT = (files("penstock.apps.rewrite.prompts") / "v1.toml").read_text("utf-8")


@pytest.mark.contract("A-62", "L-55")
@pytest.mark.parametrize("version", ["v2000", "", "../v1", "v1.toml", "V1", "registry"])
def test_an_unknown_version_is_a_configuration_error_that_no_retry_mends(version: str) -> None:
    with pytest.raises(Failed) as raised:
        prompt(version)

    assert raised.value.error_class is FailureClass.CONFIG_INVALID
    assert not is_retryable(raised.value.error_class, idempotent=True)
    assert "choose v1" in str(raised.value)


def test_every_version_there_is_can_be_loaded_and_is_loaded_once() -> None:
    assert "v1" in versions()
    for version in versions():
        assert prompt(version).version == version
        assert prompt(version) is prompt(version)


def test_a_damaged_file_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.apps.rewrite.prompts.registry.parsed", lambda text: parsed(text[:500]))
    with pytest.raises(Failed) as raised:
        prompt.__wrapped__("v1")
    assert raised.value.error_class is FailureClass.CONFIG_INVALID
    assert raised.value.__context__ is None


def test_the_file_of_another_version_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = parsed(TEXT.replace('version = "v1"', 'version = "v2"'))
    monkeypatch.setattr("penstock.apps.rewrite.prompts.registry.parsed", lambda text: renamed)
    with pytest.raises(Failed, match="damaged"):
        prompt.__wrapped__("v1")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('version = "v1"', 'version = "newest"'),
        ("full_reframe = ", "brutal = "),
        ("same_language = ", "third_language = "),
        ('default = "calm', 'calm = "calm'),
        ("$tone", "$town"),
        ("$terms", "none"),
        ('"$code"', '"en"'),
        ("written in $target. Your version is in $target too", "written"),
        ("written in $source, and", "written in ${}, and"),
        ("You help people", "You help $target people"),
        ('"rewritten_text"', '"text"'),
        ('quote = "| "', 'quote = "<<<"'),
        ('name = "MESSAGE"', 'name = "the message"'),
        ('"<|", ', '"< |", '),
        ('en = "English"', 'english = "English"'),
        ('en = "English"', 'en = ""'),
        ("[tones]", "[moods]"),
        ("[tones]", "surprise = 1\n[tones]"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_when_it_is_read(old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(ValueError, match=r"\w"):
        parsed(TEXT.replace(old, new, 1))
