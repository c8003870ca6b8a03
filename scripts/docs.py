"""`make docs`: the pages that are made from the code and the last test run.

docs/contract.md shows every clause in a few words and the tests that prove it,
once there has been a test run; docs/reference/ gets the commands, the settings,
the fields of a policy, the failure classes and the SQL functions. What is
generated is not committed.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli_reference import cli_reference
from variables import OTHERS

from penstock.contract.failures import RULES, FailureClass, Retry
from penstock.contract.policies import Policy
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
CLAUSES = ROOT / "docs" / "contract" / "clauses.txt"
REPORT = ROOT / "build" / "contract-report.json"
TESTS = ROOT / "tests"
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
RETRIED = {Retry.YES: "yes", Retry.IF_IDEMPOTENT: "if the type is `idempotent`", Retry.NO: "no"}
FUNCTIONS = ("enqueue", "put_jobs", "cancel", "resolve_effect", "now", "poke")
BESIDE = (
    ("args", "", "of `job`, `lane` and `.stage`: a pydantic model or a dataclass that the payload is read as"),
    ("log_ids", "`()`", "members of the payload that are opaque ids and may be logged"),
)


def main() -> int:
    """Write every page; the conformance page only when there has been a test run to report on."""
    pages = {
        ROOT / "docs" / "reference" / "cli.md": cli_reference(),
        ROOT / "docs" / "reference" / "settings.md": settings(),
        ROOT / "docs" / "reference" / "policy.md": policy(),
        ROOT / "docs" / "reference" / "failures.md": failures(),
        ROOT / "docs" / "reference" / "sql.md": functions(),
    }
    if REPORT.exists():
        pages[ROOT / "docs" / "contract.md"] = contract()
    for path, text in pages.items():
        path.write_text(text)
        print(path.relative_to(ROOT))
    if not REPORT.exists():
        print("docs/contract.md is left out, as no test has been run: `make test` and `make docs` again write it")
    return 0


def contract() -> str:
    """The conformance page."""
    ran: dict[str, Any] = json.loads(REPORT.read_text())
    proofs = proven(ran)
    marked = marks()
    left_out = marked.keys() - {re.sub(r"\[.*", "", test) for test in ran}
    expected = {clause for found in marked.values() for clause in found}
    lines = [
        "# Conformance",
        "",
        "Every rule that Penstock keeps, in a few words, and the tests that prove it. Made by `make docs` from",
        "the marks of the tests that passed in the last `make test`. A mark is a promise: the test fails if the rule",
        "is broken.",
        "",
    ]
    if left_out:
        lines += [
            f"**This page is of a part of the tests: {len(left_out)} of {len(marked)} that name a rule did not run.**",
            "`make test` without `ARGS`, then `make docs`, write the whole page.",
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
        for words, found in (
            ("Named by tests that did not run or did not pass", [c for c in missing if c in expected]),
            ("No test names yet", [c for c in missing if c not in expected]),
        ):
            if found:
                lines += [f"{words}: {', '.join(found)}.", ""]
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


def marks() -> dict[str, set[str]]:
    """The clauses of every test in the sources that names one, run or not."""
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for places, test in tests_of(ast.parse(path.read_text())):
            calls = [call for mark in test.decorator_list for call in ast.walk(mark) if is_contract(call)]
            clauses = {word.value for call in calls for word in ast.walk(call) if isinstance(word, ast.Constant)}
            if clauses:
                found["::".join([str(path.relative_to(ROOT)), *places, test.name])] = {str(one) for one in clauses}
    return found


def tests_of(tree: ast.Module) -> Iterator[tuple[list[str], ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every test of a module, with the class that it stands in."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        for one in inside:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                yield ([node.name] if isinstance(node, ast.ClassDef) else []), one


def is_contract(node: ast.AST) -> bool:
    """Whether this is `pytest.mark.contract(...)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "contract"


def proven(ran: dict[str, Any]) -> dict[str, list[str]]:
    """The passing tests of each clause."""
    proofs: dict[str, list[str]] = defaultdict(list)
    for test, record in ran.items():
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
    lines += [
        "",
        "## Variables that are no settings",
        "",
        "Read from the environment alone, by the command or the fixture that needs them.",
        "",
        "| Variable | Read by | Meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}` | {reader} | {meaning} |" for name, reader, meaning in OTHERS]
    return "\n".join(lines) + "\n"


def policy() -> str:
    """The page of policies."""
    comments = field_comments(Policy)
    lines = [
        "# Policy of a job type",
        "",
        "Keywords of `@app.job(name, ...)`, `app.type(name, ...)` and `app.lane(name, ...)`; the name is no keyword.",
        "Made by `make docs`.",
        "",
        "| Field | Default | Meaning |",
        "|---|---|---|",
    ]
    for field in dataclasses.fields(Policy)[1:]:
        default: Any = field.default
        make: Any = field.default_factory
        if default is dataclasses.MISSING:
            default = "" if make is dataclasses.MISSING else make()
        text = f"`{shown(default)}`" if default != "" else ""
        lines.append(f"| `{field.name}` | {text} | {comments.get(field.name, '')} |")
    lines += ["", "Beside the policy:", "", "| Keyword | Default | Meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {text} | {meaning} |" for name, text, meaning in BESIDE]
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
        "The closed list. Every failure has one of these, and the class decides about a retry. Made by `make docs`.",
        "",
        "| Class | Retried | Opens the breaker | Pages | Escalates |",
        "|---|---|---|---|---|",
    ]
    for error_class, rule in RULES.items():
        retried = "no; see below" if error_class is FailureClass.RUNTIME_BUG else RETRIED[rule.retry]
        flags = (rule.opens_breaker, rule.pages, rule.escalates)
        lines.append(f"| `{error_class}` | {retried} | {' | '.join('yes' if flag else '' for flag in flags)} |")
    lines += [
        "",
        "`RUNTIME_BUG` is also the class of every exception that no rule recognises. Such an exception is retried",
        "within the budget where the type has `unknown_retryable=True`, the default of a plain type. Where it is off,",
        "and when a handler raises `Failed(FailureClass.RUNTIME_BUG)` itself, the job ends at once. It pages when the",
        "job has ended.",
        "",
        "A failure that escalates goes to an operator, unless the handler said that it expected it.",
    ]
    return "\n".join(lines) + "\n"


def functions() -> str:
    """The page of SQL functions."""
    lines = [
        "# SQL functions",
        "",
        "What other languages, triggers and psql may call. Made by `make docs`.",
        "",
    ]
    source = "\n".join(path.read_text() for path in sorted(MIGRATIONS.rglob("*.sql")))
    for function in FUNCTIONS:
        made = re.search(
            rf"((?:^--[^\n]*\n)+)create function penstock\.{function}\((.*?)\)\s*(?:returns (\S+)\s*)?language",
            source,
            re.MULTILINE | re.DOTALL,
        )
        if made is None:
            raise LookupError(f"no function penstock.{function} with a comment above it in {MIGRATIONS}")
        comment, arguments, returns = made.groups()
        words = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
        signature = re.sub(r"\s+", " ", arguments).strip()
        whole = f"penstock.{function}({signature})" + (f" → {returns}" if returns else "")
        lines += [f"## penstock.{function}", "", f"`{whole}`", "", words, ""]
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A default as a reader wants it."""
    return str(value).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
