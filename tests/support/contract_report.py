"""Write which contract clauses the tests of a run prove.

`--contract-report FILE` writes
{"<test id>": {"outcome": "passed", "clauses": ["Q-62", ...]}, ...}. The marks
travel with each test's report, so it works the same in one process and in many.
"""

import json
import re
from pathlib import Path
from typing import Final

import pytest

PROPERTY = "contract"
MOST_CLAUSES = 5
CLAUSE: Final = re.compile(r"[A-Z]-\d{2,3}")
WORST_FIRST: Final = ("failed", "skipped", "passed")


class ContractReport:
    """Collects the outcome of every test on the process that talks to the terminal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, dict[str, object]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of a test's setup, call and teardown."""
        clauses = [str(value) for name, value in report.user_properties if name == PROPERTY]
        known = self.tests.setdefault(report.nodeid, {"outcome": "passed", "clauses": clauses})
        known["outcome"] = min(str(known["outcome"]), report.outcome, key=WORST_FIRST.index)

    def pytest_sessionfinish(self) -> None:
        """Write the report, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.tests, indent=1, sort_keys=True) + "\n")
        partial.replace(self.path)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--contract-report", metavar="FILE", help="write the clauses each test proves")


def pytest_configure(config: pytest.Config) -> None:
    """Collect what the run tells."""
    path = config.getoption("--contract-report")
    if path:
        config.pluginmanager.register(ContractReport(Path(path)), "contract-report")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Attach the clauses of each test's marks to its reports; a malformed mark is an error."""
    for item in items:
        clauses = [clause for mark in item.iter_markers("contract") for clause in mark.args]
        _check(item.nodeid, clauses)
        item.user_properties.extend((PROPERTY, clause) for clause in dict.fromkeys(clauses))


def _check(test: str, clauses: list[object]) -> None:
    wrong = [c for c in clauses if not (isinstance(c, str) and CLAUSE.fullmatch(c))]
    if wrong:
        raise pytest.UsageError(f"{test}: {wrong[0]!r} is no clause; write it as in contract.md, such as Q-62")
    if len(clauses) > MOST_CLAUSES:
        raise pytest.UsageError(f"{test}: names {len(clauses)} clauses, at most {MOST_CLAUSES}; split the test")
