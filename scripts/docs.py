"""`make docs`: the pages that are made from the code and the last test run.

docs/contract.md shows every clause in a few words and the tests that prove it;
docs/reference/ gets the commands, the settings, the fields of a policy, the
failure classes and the SQL functions. What is generated is not committed.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli_reference import cli_reference

from penstock.contract.failures import RULES
from penstock.contract.policies import Policy
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
CLAUSES = ROOT / "docs" / "contract" / "clauses.txt"
REPORT = ROOT / "build" / "contract-report.json"
MIGRATIONS = ROOT / "src" / "penstock" / "store" / "migrations" / "sql"
NAMES = {
    "Q": "Queue processing",
    "A": "Rewrite execution",
    "L": "Two lanes",
    "E": "Errors and dead letters",
    "N": "Notifications",
    "D": "Dispatch",
    "C": "Decisions",
}


def main() -> int:
    """Write every page; 1 when there has been no test run to report on."""
    if not REPORT.exists():
        print("no test report yet: run `make test` first, so that the conformance page can name passing tests")
        return 1
    pages = {
        ROOT / "docs" / "contract.md": contract(),
        ROOT / "docs" / "reference" / "cli.md": cli_reference(),
        ROOT / "docs" / "reference" / "settings.md": settings(),
        ROOT / "docs" / "reference" / "policy.md": policy(),
        ROOT / "docs" / "reference" / "failures.md": failures(),
        ROOT / "docs" / "reference" / "sql.md": functions(),
    }
    for path, text in pages.items():
        path.write_text(text)
        print(path.relative_to(ROOT))
    return 0


def contract() -> str:
    """The conformance page."""
    proofs = proven()
    lines = [
        "# Conformance",
        "",
        "Every rule that Penstock keeps, in a few words, and the tests that prove it. Made by `make docs` from",
        "the marks of the tests that passed in the last `make test`. A mark is a promise: the test fails if the rule",
        "is broken.",
        "",
    ]
    for prefix, rows in by_prefix(clauses()):
        done = sum(clause in proofs for clause, _ in rows)
        lines += [
            f"## {prefix}: {NAMES[prefix]} ({done} of {len(rows)})",
            "",
            "| Clause | Rule | Proven by |",
            "|---|---|---|",
        ]
        lines += [f"| {clause} | {words} | {named(proofs[clause])} |" for clause, words in rows if clause in proofs]
        lines.append("")
        missing = [clause for clause, _ in rows if clause not in proofs]
        if missing:
            lines += [f"No test names yet: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def clauses() -> list[tuple[str, str]]:
    """Every clause with its words."""
    pairs = (line.split(" ", 1) for line in CLAUSES.read_text().splitlines() if line.strip())
    return [(clause, words) for clause, words in pairs]


def by_prefix(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The clauses of each document."""
    groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for clause, words in rows:
        groups[clause[0]].append((clause, words))
    yield from groups.items()


def proven() -> dict[str, list[str]]:
    """The passing tests of each clause."""
    proofs: dict[str, list[str]] = defaultdict(list)
    for test, record in json.loads(REPORT.read_text()).items():
        if record["outcome"] == "passed":
            for clause in record["clauses"]:
                proofs[clause].append(test)
    return proofs


def named(tests: list[str], most: int = 4) -> str:
    """Test names as sentences, a few of them."""
    names = sorted(
        {re.sub(r"\[.*", "", test.rpartition("::")[2]).removeprefix("test_").replace("_", " ") for test in tests}
    )
    more = f"; and {len(names) - most} more" if len(names) > most else ""
    return "; ".join(names[:most]) + more


def sentence(test: str) -> str:
    """The name of a test, read aloud."""
    name = re.sub(r"\[.*", "", test.rpartition("::")[2])
    return name.removeprefix("test_").replace("_", " ")


def settings() -> str:
    """The page of settings."""
    lines = [
        "# Settings",
        "",
        "Each is an environment variable `PENSTOCK_<NAME>`, or a keyword of `Penstock(...)`. Made by `make docs`.",
        "",
        "| Variable | Default | Meaning |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{shown(field.default)}`"
        lines.append(f"| `PENSTOCK_{name.upper()}` | {default} | {field.description or ''} |")
    return "\n".join(lines) + "\n"


def policy() -> str:
    """The page of policies."""
    comments = field_comments(Policy)
    lines = [
        "# Policy of a job type",
        "",
        "Keywords of `@app.job(name, ...)` and `app.type(name, ...)`. Made by `make docs`.",
        "",
        "| Field | Default | Meaning |",
        "|---|---|---|",
    ]
    for field in dataclasses.fields(Policy):
        default: Any = field.default
        make: Any = field.default_factory
        if default is dataclasses.MISSING:
            default = "" if make is dataclasses.MISSING else make()
        text = f"`{shown(default)}`" if default != "" else ""
        lines.append(f"| `{field.name}` | {text} | {comments.get(field.name, '')} |")
    return "\n".join(lines) + "\n"


def field_comments(cls: type) -> dict[str, str]:
    """What stands beside each field in the source."""
    source = Path(sys.modules[cls.__module__].__file__ or "").read_text()
    return dict(re.findall(r"^    (\w+): [^#\n]*#\s*(.+)$", source, re.MULTILINE))


def failures() -> str:
    """The page of failure classes."""
    lines = [
        "# Failure classes",
        "",
        "The closed list. Every failure has one of these, and nothing else decides about a retry. Made by `make docs`.",
        "",
        "| Class | Retried | Opens the breaker | Pages |",
        "|---|---|---|---|",
    ]
    for error_class, rule in RULES.items():
        lines.append(
            f"| `{error_class}` | {str(rule.retry).replace('_', ' ')} | {'yes' if rule.opens_breaker else ''} "
            f"| {'yes' if rule.pages else ''} |"
        )
    return "\n".join(lines) + "\n"


def functions() -> str:
    """The page of SQL functions."""
    lines = [
        "# SQL functions",
        "",
        "What other languages, triggers and psql may call. Made by `make docs`.",
        "",
    ]
    for path in sorted(MIGRATIONS.rglob("*.sql")):
        for comment, name, arguments, returns in re.findall(
            r"((?:^--[^\n]*\n)+)create function penstock\.(enqueue|cancel|now|poke)\((.*?)\)\s*returns (\w+)",
            path.read_text(),
            re.MULTILINE | re.DOTALL,
        ):
            words = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
            signature = re.sub(r"\s+", " ", arguments).strip()
            lines += [f"## penstock.{name}", "", f"`penstock.{name}({signature}) → {returns}`", "", words, ""]
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A default as a reader wants it."""
    return str(value).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
