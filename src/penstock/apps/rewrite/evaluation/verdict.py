"""What the evaluation says: classes for the engine, codes for the operator, versions for the audit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EVAL_VERSION: Final = "eval-1"  # moves with every rule in this package that could change a verdict


class Detail(StrEnum):
    """Why a rewrite was refused. A closed list: there is no place in it for a word of anybody's."""

    NOT_AN_ANSWER = "NOT_AN_ANSWER"  # a member missing, too many, or of another type
    EMPTY = "EMPTY"
    NO_WORDS = "NO_WORDS"  # emoji, digits, punctuation
    TOO_LONG = "TOO_LONG"
    CONTROL_CHARACTER = "CONTROL_CHARACTER"
    CUT_OFF = "CUT_OFF"
    FENCE_ECHOED = "FENCE_ECHOED"  # the prompt leaks into the answer
    LOCALE_DECLARED = "LOCALE_DECLARED"
    LOCALE_SCRIPT = "LOCALE_SCRIPT"
    LOCALE_DETECTED = "LOCALE_DETECTED"
    LOCALE_PART = "LOCALE_PART"  # a part of it is in another language
    BLOCKED_TERM = "BLOCKED_TERM"
    BLAME_PHRASE = "BLAME_PHRASE"
    RECIPIENT_TERM = "RECIPIENT_TERM"


_LOCALE: Final = FailureClass.LOCALE_MISMATCH
_LEXICON: Final = FailureClass.LEXICON_BLOCKED
CLASSES: Final[Mapping[Detail, FailureClass]] = {
    **dict.fromkeys(Detail, FailureClass.SCHEMA_INVALID),
    Detail.LOCALE_DECLARED: _LOCALE,
    Detail.LOCALE_SCRIPT: _LOCALE,
    Detail.LOCALE_DETECTED: _LOCALE,
    Detail.LOCALE_PART: _LOCALE,
    Detail.BLOCKED_TERM: _LEXICON,
    Detail.BLAME_PHRASE: _LEXICON,
    Detail.RECIPIENT_TERM: _LEXICON,
}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The verdict on one rewrite: no failures, or every class and code that was found."""

    failures: tuple[FailureClass, ...]
    eval_version: str
    lexicon_version: str
    detail: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the rewrite may be stored."""
        return not self.failures

    def raise_if_refused(self) -> None:
        """Fail the attempt with the first class found; the message holds codes only."""
        if self.failures:
            raise refusal(self.failures[0], self.detail)


def verdict(details: Iterable[Detail], lexicon_version: str) -> Evaluation:
    """The evaluation that follows from *details*; each class once, in the order of finding."""
    found = tuple(dict.fromkeys(details))
    classes = tuple(dict.fromkeys(CLASSES[detail] for detail in found))
    return Evaluation(classes, EVAL_VERSION, lexicon_version, tuple(detail.value for detail in found))


def refusal(error_class: FailureClass, details: Iterable[str]) -> Failed:
    """The failure of an attempt whose answer was refused."""
    return Failed(error_class, f"the rewrite was refused ({', '.join(details)}) and nothing of it is stored")
