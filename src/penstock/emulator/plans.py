"""The faults that struck a batch when it was created, and which of its items they spoil."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from penstock.emulator.faults import Rule, rule
from penstock.emulator.kinds import Family

if TYPE_CHECKING:
    from penstock.emulator.batches import Item, Stage


class Plan:
    """What will go wrong with one batch."""

    def __init__(self, rules: Iterable[Rule] = (), seed: int = 0) -> None:
        self.rules = list(rules)
        self._seed = seed

    def add(self, kind: str, **settings: Any) -> None:
        """Let one more thing go wrong; what has ended already stays as it is."""
        self.rules.append(rule(kind, **settings))

    def __contains__(self, kind: str) -> bool:
        return any(each.kind == kind for each in self.rules)

    def __getitem__(self, kind: str) -> Rule:
        """The first rule of *kind*."""
        found = self.get(kind)
        if found is None:
            raise KeyError(kind)
        return found

    def get(self, kind: str) -> Rule | None:
        """The first rule of *kind*, if there is one."""
        return next((each for each in self.rules if each.kind == kind), None)

    def number(self, kind: str, setting: str, default: float) -> float:
        """A number that a rule of *kind* may change."""
        found = self.get(kind)
        value = None if found is None else found.get(setting)
        return default if value is None else float(value)

    @property
    def stuck(self) -> Stage | None:
        """The stage that it never leaves."""
        from penstock.emulator.batches import Stage

        found = self.get("stuck")
        return None if found is None else Stage(found.get("state", "finalizing"))

    def spoiled(self, items: Sequence[Item], *kinds: str) -> dict[int, Rule]:
        """Index of an item → the first rule of *kinds* that spoils it; no kinds: every rule on answers."""
        found: dict[int, Rule] = {}
        for each in self.rules:
            if each.kind in kinds or (not kinds and each.family == Family.ANSWER):
                for index in self._chosen(each, items):
                    found.setdefault(index, each)
        return found

    def _chosen(self, each: Rule, items: Sequence[Item]) -> Iterable[int]:
        return (
            index
            for index in _indexes(each.items, len(items))
            if 0 <= index < len(items) and self._meant(each, items[index])
        )

    def _meant(self, each: Rule, item: Item) -> bool:
        if each.custom_id is not None and not each.custom_id.search(item.custom_id):
            return False
        if each.text is not None and not each.text.search(bytes(item.raw).decode("utf-8", "replace")):
            return False
        return each.probability is None or self._draw(item.custom_id) < each.probability

    def _draw(self, custom_id: str) -> float:
        """A number in [0, 1) that is the same for the same item and seed, whoever asks and how often."""
        digest = sha256(f"{self._seed}:{custom_id}".encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48


def _indexes(items: Any, count: int) -> Iterable[int]:
    match items:
        case None | "all":
            return range(count)
        case int():
            return range(min(items, count))
        case {"every": int(step)}:
            return range(items.get("from", 0), count, step)
        case list() | tuple() | set() | range():
            return [index + count if index < 0 else index for index in items]
        case _:
            raise ValueError(f"cannot choose items by {items!r}; give a number, indexes or {{'every': n}}")
