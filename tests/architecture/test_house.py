"""The rules of the house that no linter of ours knows."""

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
MOST_LINES = 400


def modules(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*.py") if "__pycache__" not in path.parts)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported(path: Path) -> Iterator[str]:
    """Yield the top-level package of every import, wherever it stands in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def calls(path: Path, function: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
            yield node.lineno


def test_dependencies_point_one_way() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("directory", ["src", "tests", "bench"])
def test_no_file_outgrows_a_readers_head(directory: str) -> None:
    files = [*modules(ROOT / directory), *(ROOT / directory).rglob("*.sql")]
    sizes = {name(path): len(path.read_text().splitlines()) for path in files}
    assert {path: lines for path, lines in sizes.items() if lines > MOST_LINES} == {}


def test_only_commands_print() -> None:
    printing = {
        f"{name(path)}:{line}"
        for path in modules(SOURCE)
        if "cli" not in path.relative_to(SOURCE).parts
        for line in calls(path, "print")
    }
    assert printing == set()


def test_the_contract_imports_the_standard_library_and_itself_only() -> None:
    allowed = sys.stdlib_module_names | {"penstock"}
    foreign = {name(path): set(imported(path)) - allowed for path in modules(SOURCE / "contract")}
    assert {path: packages for path, packages in foreign.items() if packages} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [name(path) for path in modules(SOURCE) if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_every_ignored_rule_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    ruff = tomllib.loads(text)["tool"]["ruff"]["lint"]
    ignored = [*ruff["ignore"], *(rule for rules in ruff["per-file-ignores"].values() for rule in rules)]
    assert ruff["select"] == ["ALL"]
    for rule in ignored:
        assert all("# " in line for line in text.splitlines() if line.strip().startswith(f'"{rule}"')), rule


def test_make_alone_lists_every_target() -> None:
    make = shutil.which("make")
    assert make
    shown = subprocess.run([make, "--silent"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "lint", "bench", "chaos", "mutants", "docs", "clean"):
        assert f"make {target} " in shown
