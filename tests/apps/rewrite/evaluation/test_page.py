"""The page about lexicons names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.apps.rewrite.evaluation.lexicon import parsed
from penstock.apps.rewrite.evaluation.verdict import CLASSES

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "lexicons.md").read_text()


def test_every_code_stands_beside_its_class() -> None:
    rows = {row.split("`")[1]: row for row in PAGE.splitlines() if row.startswith("| `") and "_" in row}
    for detail, error_class in CLASSES.items():
        assert f"`{detail}`" in rows[error_class]


def test_the_example_is_a_list() -> None:
    example = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    assert parsed(example[1]).language == "sv"
