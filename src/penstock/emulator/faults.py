"""The script of faults: which occasion, how often, and what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from penstock.emulator.kinds import KINDS, Family

WHO: Final = frozenset({
    "provider", "method", "path", "token", "custom_id", "text", "nth", "times", "probability", "items", "where",
})  # fmt: skip
PROVIDERS: Final = ("openai", "gemini", "anthropic")
CHANNELS: Final = ("resend", "smtp", "webhook")
EVERYBODY: Final = (*PROVIDERS, *CHANNELS)


@dataclass(slots=True)
class Rule:
    """One fault. What it does not name, it does not mind; *nth* counts the occasions that fit, from 1."""

    kind: str
    provider: str | None = None
    method: str | None = None
    path: re.Pattern[str] | None = None
    token: str | None = None  # is in the metadata or the display name of the batch, or in its custom ids
    custom_id: re.Pattern[str] | None = None
    text: re.Pattern[str] | None = None
    nth: frozenset[int] | None = None
    times: int | None = None
    probability: float | None = None
    items: Any = None  # a number of first items, indexes, {"every": n}; None is all
    where: str | None = None  # "batch" or "call"; None is both
    settings: dict[str, Any] = field(default_factory=dict)
    seen: int = 0
    struck: int = 0

    @property
    def family(self) -> Family:
        """Where it strikes."""
        return KINDS[self.kind].family

    def get(self, name: str, default: Any = None) -> Any:
        """One of its own settings."""
        return self.settings.get(name, default)

    def strikes(self, random: Random) -> bool:
        """Count an occasion that fits; True when this is one to spoil."""
        self.seen += 1
        if self.nth is not None and self.seen not in self.nth:
            return False
        if self.times is not None and self.struck >= self.times:
            return False
        if self.probability is not None and self._per_occasion and random.random() >= self.probability:
            return False
        self.struck += 1
        return True

    @property
    def _per_occasion(self) -> bool:
        """Rules on items draw for each item, all others for each occasion."""
        return self.family in {Family.WIRE, Family.BATCH} or self.where == "call"


@dataclass(frozen=True, slots=True)
class Occasion:
    """Something that could go wrong. The functions are asked only if a rule wants to know."""

    provider: str
    method: str = ""
    path: str = ""
    token: str = ""
    custom_ids: Callable[[], Sequence[str]] = tuple
    text: Callable[[], str] = str


def rule(kind: str, **settings: Any) -> Rule:
    """A rule from its settings, refused when it names something unknown: a typing error must not pass for a fault."""
    if kind not in KINDS:
        raise ValueError(f"there is no fault {kind!r}; there are {', '.join(sorted(KINDS))}")
    unknown = set(settings) - WHO - KINDS[kind].settings
    if unknown:
        known = sorted(KINDS[kind].settings)
        raise ValueError(f"the fault {kind!r} knows no {sorted(unknown)}; it takes {known} and {sorted(WHO)}")
    if settings.get("provider") not in {None, *EVERYBODY}:
        raise ValueError(f"there is no provider {settings['provider']!r}; there are {', '.join(EVERYBODY)}")
    who = {name: settings[name] for name in WHO & settings.keys()}
    for name in {"path", "custom_id", "text"} & who.keys():
        who[name] = re.compile(who[name])
    if who.get("nth") is not None:
        who["nth"] = frozenset([who["nth"]] if isinstance(who["nth"], int) else who["nth"])
    own = {name: value for name, value in settings.items() if name not in WHO}
    return Rule(kind, **who, settings=own)


class Faults:
    """The rules in force, first added first asked."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.rules: list[Rule] = []
        self.random = Random(seed)  # noqa: S311 - a script is to be repeatable

    def add(self, kind: str, **settings: Any) -> Rule:
        """Put a fault in force: `add("drop_after", provider="openai", method="POST", path="/batches$", nth=1)`."""
        made = rule(kind, **settings)
        self.rules.append(made)
        return made

    def load(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Add rules as they stand in a script: objects with 'kind' and settings."""
        for each in rules:
            if "kind" not in each:
                raise ValueError(f"a fault needs a 'kind'; this one has {sorted(each)}")
            self.add(**{str(name): value for name, value in each.items()})

    def clear(self) -> None:
        """No faults from here on; batches keep what they were created with."""
        self.rules.clear()
        self.random.seed(self._seed)

    def striking(self, families: set[Family], occasion: Occasion, where: str = "") -> list[Rule]:
        """The rules of *families* that spoil this occasion."""
        return [
            each
            for each in list(self.rules)
            if each.family in families
            and each.where in {None, where}
            and (each.items is None or where != "call")  # who chooses items means a batch
            and fits(each, occasion)
            and each.strikes(self.random)
        ]


def fits(rule: Rule, occasion: Occasion) -> bool:
    """Whether *rule* is about this occasion at all."""
    return (
        rule.provider in {None, occasion.provider}
        and (rule.method is None or rule.method.upper() == occasion.method)
        and (rule.path is None or rule.path.search(occasion.path) is not None)
        and (rule.token is None or rule.token in occasion.token)
        and (rule.custom_id is None or any(map(rule.custom_id.search, occasion.custom_ids())))
        and (rule.text is None or rule.text.search(occasion.text()) is not None)
    )
