"""What spoils an answer: the text that a flaw makes of a good one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.emulator.faults import Rule
from penstock.emulator.questions import CHARACTERS_PER_TOKEN, Question, compact, tokens
from penstock.emulator.sentences import FOREIGN

DIFFERENT: Final = "On second thoughts, another answer altogether."
HUGE: Final = 1_000_000
UNLIMITED: Final = frozenset({"huge", "refusal", "content_filter", "failed"})
PADDING: Final = "much too long "
PROSE: Final = "I am afraid there is no JSON in this answer."


def spoil(text: str, rule: Rule | None, *, differs: bool = False) -> str:
    """*text* as the model gives it under *rule*; kinds that change the frame leave the text alone."""
    if rule is not None and rule.kind in FLAWS:
        return FLAWS[rule.kind](text, rule)
    return put(text, DIFFERENT) if differs else text


def limited(question: Question, text: str, rule: Rule | None) -> tuple[str, str]:
    """How the answer ends and its text: an honest one stops where the request's limit says."""
    kind = rule.kind if rule else ""
    limit = question.max_output_tokens
    if limit is None or tokens(text) <= limit or kind in UNLIMITED:
        return kind, text
    return "incomplete", text[: limit * CHARACTERS_PER_TOKEN]


def put(text: str, sentence: str) -> str:
    """*sentence* in the place of the longest string in *text*; of all of it when it is no JSON."""
    try:
        found = json.loads(text)
    except ValueError:
        return sentence
    holder, key = _longest(found)
    if holder is None:
        return sentence
    holder[key] = sentence
    return compact(found)


def _longest(value: Any) -> tuple[Any, Any]:
    """Where the longest string in *value* stands: its container and its key."""
    best: tuple[int, Any, Any] = (-1, None, None)
    rest = [value]
    while rest:
        holder = rest.pop()
        pairs = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, member in pairs:
            if isinstance(member, str) and len(member) > best[0]:
                best = (len(member), holder, key)
            elif isinstance(member, dict | list):
                rest.append(member)
    return best[1], best[2]


def _huge(text: str, rule: Rule) -> str:
    return put(text, PADDING * (int(rule.get("bytes", HUGE)) // len(PADDING) + 1))


FLAWS: Final[Mapping[str, Callable[[str, Rule], str]]] = {
    "wrong_schema": lambda _text, _rule: '{"unexpected":[1,2,3]}',
    "wrong_language": lambda text, rule: put(text, str(rule.get("sentence", FOREIGN))),
    "huge": _huge,
    "nul": lambda text, _rule: put(text, "before\x00after"),
    "not_json": lambda _text, _rule: PROSE,
    "empty_answer": lambda _text, _rule: "",
    "incomplete": lambda text, _rule: text[: len(text) // 2],
}
