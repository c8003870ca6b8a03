"""What `make docs` writes says something about everything, and the hand-written lists have fallen behind nothing."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "penstock"
RAISED = re.compile(
    r"""(?:raise_alert\(\w[\w.]*,|alert_once\(\w[\w.]*,|_alert\(batch,|alerts\.append\(\()\s*"(\w+)\""""
    r"""|penstock\.alerts \(kind[^)]*\)\s*(?:select|values \()\s*'(\w+)'"""
)


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    """The script behind `make docs`."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table."""
    return [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("page", ["settings", "policy"])
def test_every_field_has_a_meaning(script: Any, page: str) -> None:
    assert [row[0] for row in rows(getattr(script, page)()) if not row[-1].strip("| ")] == []


def test_failure_classes_are_told_in_words(script: Any) -> None:
    assert {row[1] for row in rows(script.failures())} == {
        "yes",
        "no",
        "no; see below",
        "if the type is `idempotent`",
    }


def test_every_function_that_is_named_is_found(script: Any) -> None:
    assert script.functions().count("\n## penstock.") == len(script.FUNCTIONS)


def test_several_arguments_are_shown_once(script: Any) -> None:
    text = script.cli_reference()
    assert "`penstock deliveries reconcile [DELIVERY_ID...]`" in text
    assert "......" not in text


def test_a_report_of_a_part_of_the_tests_is_called_one(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.json"
    monkeypatch.setattr(script, "REPORT", report)
    whole = {test: {"outcome": "passed", "clauses": sorted(clauses)} for test, clauses in script.marks().items()}
    report.write_text(json.dumps(whole))
    assert "a part of the tests" not in script.contract()
    report.write_text(json.dumps(dict(list(whole.items())[:5])))
    page = script.contract()
    assert "a part of the tests" in page
    assert "No test names yet" not in page


def test_the_page_of_alerts_lists_every_kind() -> None:
    page = (ROOT / "docs" / "reference" / "dead-letter.md").read_text()
    paths = [*SOURCES.rglob("*.py"), *SOURCES.rglob("*.sql")]
    kinds = {one for path in paths for found in RAISED.findall(path.read_text()) for one in found if one}
    assert {"breaker_opened", "function_failed", "batch_missing", "batch_orphan_cancelled"} <= kinds
    assert sorted(kind for kind in kinds if f"`{kind}`" not in page) == []


def test_every_variable_that_is_read_is_on_the_page_of_settings(script: Any) -> None:
    listed = set(re.findall(r"`(PENSTOCK_\w+)`", script.settings()))
    own = {"SLOT", "CHANNEL", "SUCCESSOR", "DEMO_FOLDER", "CRASH_AT", "CRASH_ONCE"}  # from one process to its next
    named = {
        word for path in SOURCES.rglob("*.py") for word in re.findall(r"\bPENSTOCK_[A-Z_]+[A-Z]", path.read_text())
    }
    assert sorted(named - listed - {f"PENSTOCK_{word}" for word in own}) == []
