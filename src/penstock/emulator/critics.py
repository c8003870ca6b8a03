"""What the emulated models say about a changelist: a few rules that look at its new lines, as a careful reader would.

The question shows the path of each file behind `=== ` or `+++ b/`, and the number
of each new line in front of it; whatever is found stands at one of these lines. A change that breaks no rule
gets no finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

MEMBERS: Final = frozenset({"file", "line", "severity", "message", "suggestion"})
_FILE: Final = re.compile(r"(?:\| )?(?:=== |\+\+\+ b/)(?P<path>.+?)(?: \(new file\))?")
_ADDED: Final = re.compile(r"(?:\| )? *(?P<line>\d+) \+(?P<code>.*)")


class Flaw(NamedTuple):
    """What to look for, and what to say about it; *mend* rewrites the line where that is enough."""

    pattern: re.Pattern[str]
    severity: str
    message: str
    mend: tuple[str, str] | None = None


def _flaw(pattern: str, severity: str, message: str, mend: tuple[str, str] | None = None) -> Flaw:
    return Flaw(re.compile(pattern), severity, message, mend)


FLAWS: Final = (
    _flaw(
        r"\b(execute|fetch|query)\w*\(\s*f[\"']", "critical",
        "SQL is put together from values. Whoever controls one of them can read or change any row; "
        "hand the values over as parameters.",
    ),
    _flaw(
        r"(?i)\b\w*(password|secret|api_?key|token)\w*\s*=\s*[\"'][^\"']{6,}[\"']", "critical",
        "A secret stands in the source. Everybody who can read the repository has it, also after it is removed; "
        "read it from the environment and replace it at its provider.",
    ),
    _flaw(r"\b(eval|exec)\(", "critical", "Text becomes code here. If any of it comes from outside, so does the code."),
    _flaw(
        r"\bshell\s*=\s*True", "critical",
        "A shell reads this command, so that a file name can hold a second one. Pass a list of arguments.",
        (r"\bshell\s*=\s*True", "shell=False"),
    ),
    _flaw(
        r"\bverify\s*=\s*False", "critical",
        "The certificate is not checked: anybody on the way can answer in the server's place.",
        (r"\bverify\s*=\s*False", "verify=True"),
    ),
    _flaw(
        r"/\s*len\(", "major",
        "This divides by zero when there is nothing in it. Say what the result is in that case, and test it.",
    ),
    _flaw(
        r"\bdef \w+\(.*=\s*(\[\]|\{\})", "major",
        "The default is made once and shared by all calls: what one call puts in, the next one finds.",
        (r"=\s*(\[\]|\{\})", "=None"),
    ),
    _flaw(
        r"\bexcept(\s+(Base)?Exception)?\s*:", "major",
        "Every error ends here, also the ones that nobody thought of, and nobody learns of them. "
        "Name those that you can do something about.",
    ),
    _flaw(
        r"==\s*None\b", "minor",
        "A comparison with None can be overloaded by the object it is made with; identity cannot.",
        (r"==\s*None\b", "is None"),
    ),
    _flaw(
        r"\btime\.sleep\(", "minor",
        "Whoever calls this waits, and so does everything else on its thread. Wait for the event instead.",
    ),
    _flaw(r"\b(TODO|FIXME|XXX)\b", "note", "Something is left to do here; link the ticket, or it will be forgotten."),
)  # fmt: skip


def is_critic(schema: Mapping[str, Any] | None) -> bool:
    """Whether *schema* asks for findings about a changelist."""
    match schema:
        case {"properties": {"findings": {"items": {"properties": {**members}}}}}:
            return set(members) >= MEMBERS
        case _:
            return False


def findings(text: str) -> dict[str, list[dict[str, object]]]:
    """Every flaw in the new lines of *text*; the same text always has the same."""
    return {"findings": list(_found(text))}


def _found(text: str) -> Iterator[dict[str, object]]:
    file = ""
    for line in text.splitlines():
        added = _ADDED.fullmatch(line)
        head = None if added else _FILE.fullmatch(line)
        if head:
            file = head["path"].strip()
        if added and file:
            yield from (_finding(flaw, file, added) for flaw in FLAWS if flaw.pattern.search(added["code"]))


def _finding(flaw: Flaw, file: str, added: re.Match[str]) -> dict[str, object]:
    return {
        "file": file,
        "line": int(added["line"]),
        "severity": flaw.severity,
        "message": flaw.message,
        "suggestion": re.sub(*flaw.mend, added["code"]) if flaw.mend else None,
    }
