"""What the emulated models say: a function, canned rules, or a default that fits the schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.emulator.critics import findings, is_critic
from penstock.emulator.enrichers import enrichment, is_enricher
from penstock.emulator.instances import instance
from penstock.emulator.questions import Question, compact
from penstock.emulator.sentences import polite

Answering = Callable[[Question], Any]
SETTINGS: Final = frozenset({"contains", "regex", "model", "custom_id", "answer"})


def default_answer(question: Question) -> str:
    """Honours a requested schema: findings for a critic's, facts for a cataloguer's, else polite words."""
    if question.schema is None:
        return polite(question.text)
    if is_critic(question.schema):
        return compact(findings(question.text))
    if is_enricher(question.schema):
        return compact(enrichment(question.text))
    return compact(instance(question.schema, question.text))


@dataclass(frozen=True, slots=True)
class Canned:
    """An answer for every question that fits; a value that is no string is given as JSON."""

    answer: Any
    contains: str | None = None
    regex: re.Pattern[str] | None = None
    model: str | None = None
    custom_id: re.Pattern[str] | None = None

    def fits(self, question: Question) -> bool:
        """Whether this rule answers *question*; what it does not name, it does not mind."""
        asked = f"{question.instructions}\n{question.text}"
        return (
            (self.contains is None or self.contains in asked)
            and (self.regex is None or self.regex.search(asked) is not None)
            and (self.model is None or self.model == question.model)
            and (self.custom_id is None or self.custom_id.search(question.custom_id or "") is not None)
        )


class Answers:
    """The first canned rule that fits answers, else the function, which has a default."""

    def __init__(self, answer: Answering | None = None) -> None:
        self.function: Answering = answer or default_answer
        self.rules: list[Canned] = []

    def add(
        self,
        answer: Any,
        *,
        contains: str | None = None,
        regex: str | None = None,
        model: str | None = None,
        custom_id: str | None = None,
    ) -> Canned:
        """Answer so whenever instructions or text contain *contains* or match *regex*; earlier rules go first."""
        rule = Canned(
            answer,
            contains=contains,
            regex=None if regex is None else re.compile(regex),
            model=model,
            custom_id=None if custom_id is None else re.compile(custom_id),
        )
        self.rules.append(rule)
        return rule

    def load(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Add rules as they stand in a script."""
        for rule in rules:
            unknown = set(rule) - SETTINGS
            if unknown or "answer" not in rule:
                raise ValueError(
                    f"an answer rule has the settings {sorted(rule)}; it needs 'answer' and may have {sorted(SETTINGS)}"
                )
            self.add(**dict(rule))

    def clear(self) -> None:
        """Forget the canned rules; the function stays."""
        self.rules.clear()

    def text(self, question: Question) -> str:
        """What the model says to *question*."""
        found = next((rule.answer for rule in self.rules if rule.fits(question)), None)
        said = self.function(question) if found is None else found
        return said if isinstance(said, str) else compact(said)
