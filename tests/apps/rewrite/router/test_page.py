"""The page about routing shows tables that are tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.apps.rewrite.models import RoutingDecisionV1
from penstock.apps.rewrite.router import Condition, load_table, route
from tests.apps.rewrite.router.support import given

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "route-rewrites.md").read_text()


def test_the_example_is_a_table_and_does_what_it_says() -> None:
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    table = load_table(example[1])

    assert table.default == load_table().default
    assert route(given("en", "ja"), table).model == "gemini-3-flash"
    assert route(given("en", "en"), table).execution_mode == "async"


@pytest.mark.contract("Q-71")
def test_the_page_names_every_member_and_says_that_there_is_no_second_choice() -> None:
    for member in (*Condition.model_fields, *RoutingDecisionV1.model_fields):
        assert f"`{member}`" in PAGE
    assert "## No second choice" in PAGE
