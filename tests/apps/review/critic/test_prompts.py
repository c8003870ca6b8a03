"""Versions of the critic's prompt: whole, or refused with what to do about it."""

from __future__ import annotations

from importlib.resources import files

import pytest

from penstock.apps.review.critic import prompt, versions
from penstock.apps.review.critic.prompts import parsed
from penstock.apps.review.models import Finding, Severity
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

TEXT = (files("penstock.apps.review.critic") / "v1.toml").read_text("utf-8")


def test_every_version_is_whole_and_names_itself() -> None:
    assert versions() == ("v1",)
    found = prompt("v1")
    assert found.version == "v1"
    assert all(f"\n{severity}: " in found.instructions for severity in Severity)
    assert all(f'"{member}"' in found.instructions for member in ("findings", *Finding.model_fields))


def test_a_version_that_does_not_exist_is_a_fault_of_the_configuration() -> None:
    with pytest.raises(Failed, match="choose v1") as refused:
        prompt("v9")
    assert refused.value.error_class is FailureClass.CONFIG_INVALID


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('note = "worth', 'remark = "worth'),
        ('"suggestion"', '"hint"'),
        ("<<<CHANGE", "<<<DIFF"),
        ('quote = "| "', 'quote = ""'),
        ('version = "v1"', 'version = "latest"'),
        ("[delimiter]", "[delimiters]"),
    ],
)
def test_a_data_file_that_is_wrong_anywhere_is_refused(old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(ValueError):  # noqa: PT011 - tomllib's or pydantic's own
        parsed(TEXT.replace(old, new))
