"""What is kept of an answer of the critic: findings that point into the part it was shown, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr, ValidationError

from penstock.apps.review.models import Finding, Severity
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.texts import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.apps.review.cutting import Part

MOST: Final = 50  # findings of one part; what is less grave than these is dropped
LONGEST_PATH: Final = 1_000
LONGEST_MESSAGE: Final = 2_000
LONGEST_SUGGESTION: Final = 4_000
_FINDING: Final[dict[str, Any]] = {
    "file": {"type": "string"},
    "line": {"type": "integer"},
    "severity": {"type": "string", "enum": [str(severity) for severity in Severity]},
    "message": {"type": "string"},
    "suggestion": {"type": ["string", "null"]},
}
SCHEMA: Final[dict[str, Any]] = {  # in the words that every provider's strict mode takes: no lengths, no bounds
    "type": "object",
    "properties": {
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": _FINDING,
                "required": list(_FINDING),
                "additionalProperties": False,
            },
        }
    },
    "required": ["findings"],
    "additionalProperties": False,
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Remark(_Strict):
    """A finding as a model writes it: of the right shape, and not believed yet."""

    file: StrictStr
    line: StrictInt
    severity: Severity
    message: StrictStr
    suggestion: StrictStr | None


class _Answer(_Strict):
    findings: tuple[_Remark, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one answer. *dropped*: findings that point elsewhere, say nothing, or are too many."""

    findings: tuple[Finding, ...] = field(repr=False)
    dropped: int


def findings_of(data: Any, part: Part) -> Judged:
    """The findings in *data* that point at a line of *part*, by file and line.

    An answer of another shape is `Failed` with SCHEMA_INVALID; nothing of it is
    in the error. The same remark twice is one finding, as grave as the graver.
    """
    answer = _answer(data)
    if answer is None:
        raise Failed(FailureClass.SCHEMA_INVALID, "the answer of the critic is no list of findings")
    placed = [_finding(remark, part.lines) for remark in answer.findings]
    merged = _merged(finding for finding in placed if finding is not None)
    gravest = sorted(merged, key=lambda finding: (finding.severity.rank, finding.place))[:MOST]
    kept = tuple(sorted(gravest, key=lambda finding: finding.place))
    return Judged(kept, placed.count(None) + len(merged) - len(kept))


def _answer(data: Any) -> _Answer | None:
    """None instead of an error, which would have the answer in its context."""
    try:
        return _Answer.model_validate(data)
    except ValidationError:
        return None


def _finding(remark: _Remark, lines: Mapping[str, frozenset[int]]) -> Finding | None:
    """*remark* as a finding; None when it points at no line of the new side, or says nothing."""
    file, message = _path(remark.file, lines), _clean(remark.message, LONGEST_MESSAGE).strip()
    if not message or len(file) > LONGEST_PATH or remark.line not in lines.get(file, ()):
        return None
    suggestion = _clean(remark.suggestion or "", LONGEST_SUGGESTION).strip("\n").rstrip() or None
    return Finding(file=file, line=remark.line, severity=remark.severity, message=message, suggestion=suggestion)


def _path(named: str, lines: Mapping[str, frozenset[int]]) -> str:
    """The path that is meant; models know the `b/` of a diff, and copy what stands beside a path."""
    meant = (named, named.removeprefix("b/"), named.removeprefix("./"), named.removesuffix(" (new file)"))
    return next((path for path in meant if path in lines), named)


def _clean(text: str, limit: int) -> str:
    """Text that every table and terminal takes, each line ended by a newline."""
    return clean_text("\n".join(text.splitlines()), limit)


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    kept: dict[tuple[str, int, str], Finding] = {}
    for finding in findings:
        same = finding.file, finding.line, " ".join(finding.message.split()).casefold()
        kept[same] = _graver(kept[same], finding) if same in kept else finding
    return list(kept.values())


def _graver(first: Finding, second: Finding) -> Finding:
    """The graver of two that say the same, with whatever suggestion there is."""
    graver = min(first, second, key=lambda finding: finding.severity.rank)
    return graver.model_copy(update={"suggestion": graver.suggestion or first.suggestion or second.suggestion})
