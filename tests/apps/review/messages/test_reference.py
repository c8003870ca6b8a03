"""The page about messages shows what is sent."""

from __future__ import annotations

import json
import re
from pathlib import Path

from penstock.apps.review.models import Facts, Skipped
from tests.apps.review.messages.support import finding, told

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "review-messages.md"


def test_the_example_of_a_webhook_is_the_body_of_one() -> None:
    text = PAGE.read_text()
    shown = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    facts = Facts(title="Give every cart a mean price", author="Ada")
    found = finding(line=18, message="It divides by zero.")
    skipped = [Skipped(file="web/logo.png", reason="binary")]
    assert json.loads(shown[1]) == told(facts=facts, findings=[found], skipped=skipped, dropped=0).data
