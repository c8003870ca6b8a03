"""Third parties from npm that the adapters and the emulator are held against, at the versions of a lock file.

Three of them, because none does it all. The vendors' SDKs for JavaScript carry
types of everything that travels, and the TypeScript compiler judges JSON by
them: unknown members, missing ones, wrong kinds and words. The same SDKs talk
to the emulator. aimock is a mock server of other people's, which adapters can
talk to; it takes nearly every request, so its answers are what it is here for.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from tests.support.exchanges import operation

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "third_party"
STORE = ROOT / "build" / "third_party"
FAILED = STORE / "failed"
OLDEST_NODE = (20, 15)
INSTALL_SECONDS = 120
PATIENCE = 30
_CI = (
    "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error",
    "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=20000",
)  # fmt: skip
_TSC = (
    "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--pretty", "false",
    "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--types", "", "claims.ts",
)  # fmt: skip
_DIAGNOSTIC = re.compile(r"^(?P<file>[\w./-]+)\((?P<line>\d+),\d+\): error (?P<said>.*)$")


@lru_cache(maxsize=1)
def packages() -> Path:
    """Where the packages are, installed at the first use; skips the test where they cannot be had."""
    problem = _missing()
    if problem:
        pytest.skip(problem)
    mark = sha256((HERE / "package.json").read_bytes() + (HERE / "package-lock.json").read_bytes()).hexdigest()[:16]
    home = STORE / mark
    with _alone():
        if not home.exists():
            problem = _said_before() or _install(home)
    if problem:
        pytest.skip(problem)
    return home


def _missing() -> str:
    """Why there is nobody to ask; empty when there is."""
    if not shutil.which("npm") or not shutil.which("node"):
        return "npm is not installed: nobody but ourselves has checked the requests of the adapters"
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()  # noqa: S607 - the one that was found
    numbers = tuple(int(part) for part in said.removeprefix("v").split(".")[:2] if part.isdigit())
    return "" if numbers >= OLDEST_NODE else f"node is {said or 'broken'}; aimock needs 20.15 or newer"


@contextmanager
def _alone() -> Iterator[None]:
    """One process at a time installs; the others find it done."""
    STORE.mkdir(parents=True, exist_ok=True)
    with (STORE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(home: Path) -> str:
    """Everything of the lock file, or why not; half of it is never left behind."""
    with tempfile.TemporaryDirectory(dir=STORE) as made:
        fresh = Path(made) / "packages"
        fresh.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, fresh)
        command = ["npm", *_CI, "--cache", f"{made}/cache"]
        try:
            subprocess.run(command, cwd=fresh, capture_output=True, text=True, check=True, timeout=INSTALL_SECONDS)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            said = error.stderr if isinstance(error.stderr, str) else ""
            problem = f"npm could not install the third parties: {' '.join(said.split())[:200] or error}"
            FAILED.write_text(problem)
            return problem
        fresh.rename(home)
    return ""


def _said_before() -> str:
    """What another process of this run was told a moment ago: not each of them has to wait for it."""
    recent = FAILED.exists() and time.time() - FAILED.stat().st_mtime < INSTALL_SECONDS
    return FAILED.read_text() if recent else ""


class Claim(NamedTuple):
    """That *value* is what the table (Requests, Answers, Errors) of wire.ts has under *name*."""

    table: str
    name: str
    value: Any


def judge(folder: Path, claims: Sequence[Claim]) -> Mapping[int, str]:
    """What the compiler has against each claim, by its number; a claim that holds has no entry."""
    home = packages()
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(home / "node_modules")
    shutil.copy(HERE / "wire.ts", folder)
    lines = ['import type { Answers, Errors, Requests } from "./wire.js";']
    lines += [
        f"export const claim{number}: {_type(claim)} = {json.dumps(claim.value)};"
        for number, claim in enumerate(claims)
    ]
    (folder / "claims.ts").write_text("\n".join(lines))
    done = subprocess.run(["node", *_TSC], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)  # noqa: S607 - the one that was found
    problems = _problems(done.stdout)
    assert bool(problems) == bool(done.returncode), done.stdout + done.stderr
    return problems


def _type(claim: Claim) -> str:
    return f"{claim.table}[{json.dumps(claim.name)}]"


def _problems(output: str) -> dict[int, str]:
    found: defaultdict[int, list[str]] = defaultdict(list)
    number = -1
    for line in output.splitlines():
        diagnostic = _DIAGNOSTIC.match(line)
        if diagnostic:
            assert diagnostic["file"] == "claims.ts", line  # a word of wire.ts that the vendors' types do not have
            number = int(diagnostic["line"]) - 2
        found[number].append(diagnostic["said"] if diagnostic else line.strip())
    return {each: "\n".join(said) for each, said in found.items()}


class Asked(NamedTuple):
    """A request that an SDK has made."""

    operation: str
    sent: Any


def ask_with_the_sdks(folder: Path, url: str, question: Mapping[str, Any]) -> list[Asked]:
    """Let the vendors' SDKs for JavaScript talk to the emulator at *url*; fails where one of them is not content."""
    script = folder / "sdks.mjs"
    shutil.copy(HERE / "sdks.mjs", script)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(packages() / "node_modules")
    command = ["node", str(script), url, json.dumps(question)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    made = [json.loads(line) for line in done.stdout.splitlines()]
    providers = [each["path"].split("/")[1] for each in made]
    return [
        Asked(operation(provider, each["method"], each["path"]), each["sent"])
        for provider, each in zip(providers, made, strict=True)
    ]


class Aimock:
    """aimock on loopback, saying *text* to everything."""

    def __init__(self, folder: Path, text: str) -> None:
        said = {"fixtures": [{"match": {"userMessage": ""}, "response": {"content": text}}]}
        (folder / "fixtures.json").write_text(json.dumps(said))
        program = packages() / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
        command = ["node", str(program), "--port", "0", "--fixtures", str(folder / "fixtures.json")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.url = self._listening()

    def _listening(self) -> str:
        assert self.process.stdout
        heard = []
        for line in self.process.stdout:
            heard.append(line)
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                return found[1]
        raise AssertionError("aimock did not start: " + "".join(heard))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)
