"""Which results a batch shows, one after the other, with everything that its plan spoils."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from penstock.emulator.batches import Batch, Stage
from penstock.emulator.faults import Rule
from penstock.emulator.replies import Refused


class Fate(StrEnum):
    """What became of an item."""

    ANSWERED = "answered"
    ERRORED = "errored"
    ZERO = "zero"  # status_code 0 and nothing else
    EXPIRED = "expired"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the results."""

    index: int  # of the item; of some item when nobody asked for it
    custom_id: str
    fate: Fate
    rule: Rule | None = None  # what spoiled it
    differs: bool = False  # the second answer to one item
    broken: bool = False
    refused: Refused | None = None  # the request itself was bad


FATES = {
    "item_error": Fate.ERRORED,
    "status_zero": Fate.ZERO,
    "item_expired": Fate.EXPIRED,
    "item_canceled": Fate.CANCELED,
}


def outcomes(batch: Batch) -> list[Outcome]:
    """Every line of an ended batch. Order is that of the items unless a fault shuffles it."""
    if batch.end == Stage.FAILED or not batch.items:
        return []
    found = [*_of_items(batch), *_of_nobody(batch)]
    if "shuffle" in batch.plan:
        Random(batch.id).shuffle(found)  # noqa: S311 - repeatable on purpose
    return found


def examined(batch: Batch, shown: list[Outcome], ask: Callable[[Batch, Outcome], object]) -> list[Outcome]:
    """The outcomes, those with a bad request turned into errors. *ask* reads a request and raises `Refused`."""
    return [_examined(batch, one, ask) if one.fate == Fate.ANSWERED else one for one in shown]


def _examined(batch: Batch, outcome: Outcome, ask: Callable[[Batch, Outcome], object]) -> Outcome:
    try:
        ask(batch, outcome)
    except Refused as refused:
        return replace(outcome, fate=Fate.ERRORED, refused=refused)
    return outcome


def count(batch: Batch, shown: list[Outcome]) -> None:
    """Remember how many outcomes of each kind there are, each item once."""
    batch.tally = dict(Counter(str(fate) for fate in {one.index: one.fate for one in shown}.values()))


def _of_items(batch: Batch) -> Iterator[Outcome]:
    plan, items = batch.plan, batch.items
    missing = plan.spoiled(items, "missing")
    fates = plan.spoiled(items, *FATES)
    flaws = plan.spoiled(items)
    twins = plan.spoiled(items, "duplicate")
    broken = plan.spoiled(items, "broken_line")
    hopeless = plan.get("all_errors")
    for index, item in enumerate(items):
        if index in missing:
            continue
        if index >= batch.done:
            yield from _unfinished(batch, index, item.custom_id)
            continue
        rule = hopeless or fates.get(index) or flaws.get(index)
        fate = Fate.ERRORED if hopeless else FATES[rule.kind] if rule and rule.kind in FATES else Fate.ANSWERED
        made = Outcome(index, item.custom_id, fate, rule, broken=index in broken)
        yield made
        if index in twins:
            yield replace(made, differs=bool(twins[index].get("differs")))


def _unfinished(batch: Batch, index: int, custom_id: str) -> Iterator[Outcome]:
    """An item that was not executed: listed as expired by default, but missing after a cancel."""
    expired = batch.end == Stage.EXPIRED
    kinds = ("expire",) if expired else ("cancelled", "cancel_keeps")
    rule = next((batch.plan[kind] for kind in kinds if kind in batch.plan), None)
    listed = None if rule is None else rule.get("listed")
    if batch.provider == "anthropic" or (expired if listed is None else listed):
        yield Outcome(index, custom_id, Fate.EXPIRED if expired else Fate.CANCELED)


def _of_nobody(batch: Batch) -> Iterator[Outcome]:
    rule = batch.plan.get("foreign")
    if rule is None:
        return
    random = Random(f"foreign {batch.id}")  # noqa: S311 - repeatable on purpose
    made = [f"{random.getrandbits(128):032x}-0-1" for _ in range(int(rule.get("count", 1)))]
    for custom_id in rule.get("custom_ids", made):
        yield Outcome(0, str(custom_id), Fate.ANSWERED)


def error_of(outcome: Outcome) -> tuple[int, str | None, str, str | None]:
    """Status, code, message and parameter of an item that failed."""
    if outcome.refused is not None:
        refused = outcome.refused
        return refused.status, refused.code, refused.message, refused.param
    said = outcome.rule.settings if outcome.rule else {}
    return int(said.get("status", 400)), said.get("code"), str(said.get("message", "This request is invalid.")), None


Render = Callable[[Batch, Outcome], bytes]


def lines(batch: Batch, shown: list[Outcome], render: Render) -> Iterator[bytes]:
    """The outcomes as lines; a broken one ends in the middle."""
    for outcome in shown:
        line = render(batch, outcome)
        yield line[: len(line) // 2] if outcome.broken else line
