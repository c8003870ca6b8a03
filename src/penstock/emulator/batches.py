"""A batch at a provider: its items, its timeline, and the faults it was created with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from penstock.emulator.plans import Plan

VALIDATED: Final = 0.1  # of the time that a batch takes
EXECUTED: Final = 0.9
DAY: Final = 86_400.0
_TOKEN: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


class Stage(StrEnum):
    """Where a batch stands, in OpenAI's words; the other providers translate."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


ENDS: Final = frozenset({Stage.COMPLETED, Stage.FAILED, Stage.EXPIRED, Stage.CANCELLED})
_ORDER: Final = (Stage.VALIDATING, Stage.IN_PROGRESS, Stage.FINALIZING, Stage.COMPLETED)


@dataclass(frozen=True, slots=True)
class Item:
    """One request in a batch, as bytes: it is parsed when it is answered."""

    custom_id: str
    raw: bytes | memoryview

    def body(self) -> dict[str, Any]:
        """The request."""
        return dict(json.loads(bytes(self.raw)))


@dataclass
class Batch:
    """A batch of any provider. `settle` moves it on; once ended, it stays as it is."""

    id: str
    provider: str
    project: str
    created_at: float
    items: Sequence[Item]
    finish_after: float
    cancel_after: float
    window: float = DAY
    endpoint: str = ""
    model: str = ""
    label: str = ""  # display name, or the metadata as JSON
    metadata: Mapping[str, str] | None = None
    input_file_id: str | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)  # found by the validation, shown after it
    plan: Plan = field(default_factory=Plan)
    cancelled_at: float | None = None
    ended_at: float | None = None
    end: Stage | None = None
    done: int = 0  # items executed when it ended
    polls: int = 0
    texts: dict[int, str] = field(default_factory=dict)
    output_file_id: str | None = None
    error_file_id: str | None = None
    tally: dict[str, int] = field(default_factory=dict)  # outcomes by kind, counted when it ended

    @property
    def token(self) -> str:
        """The submission it belongs to: a UUID in its label or its first custom id, as 32 hex digits."""
        named = self.label or (self.items[0].custom_id if self.items else "")
        found = _TOKEN.search(named)
        return found[0].replace("-", "") if found else named

    @property
    def live(self) -> bool:
        """Whether it still works, or will."""
        return self.end is None and self.cancelled_at is None

    def settle(self, now: float) -> bool:
        """Move on to *now*; True when this ended it."""
        if self.end is not None:
            return False
        stage = self.stage(now)
        if stage in ENDS:
            self.done = self._finished(now, stage)
            self.end, self.ended_at = stage, now
        return self.end is not None

    def stage(self, now: float) -> Stage:
        """Where it stands at *now*."""
        if self.end is not None:
            return self.end
        if self.cancelled_at is not None:
            if self.plan.stuck == Stage.CANCELLING or now < self.cancelled_at + self.cancel_after:
                return Stage.CANCELLING
            return Stage.CANCELLED
        return self._stage_at(now - self.created_at)

    def cancel(self, now: float) -> None:
        """What has been executed by now stays; the rest is never executed."""
        if self.end is None and self.cancelled_at is None:
            self.cancelled_at = now

    def _stage_at(self, age: float) -> Stage:
        takes = self.plan.number("finish_after", "seconds", self.finish_after)
        if self.fails and age >= takes * VALIDATED:
            return Stage.FAILED
        stage = _ORDER[sum(age >= takes * share for share in (VALIDATED, EXECUTED, 1))]
        stuck = self.plan.stuck
        if stuck is not None and stuck in _ORDER and _ORDER.index(stage) >= _ORDER.index(stuck):
            return stuck
        for kind, end in (("expire", Stage.EXPIRED), ("cancelled", Stage.CANCELLED)):
            if kind in self.plan and age >= self.plan.number(kind, "after", takes):
                return end
        return Stage.EXPIRED if age >= self.window and stage != Stage.COMPLETED else stage

    @property
    def fails(self) -> bool:
        """Whether the validation refuses it."""
        return bool(self.errors) or "fail" in self.plan or "token_limit" in self.plan

    def _finished(self, now: float, end: Stage) -> int:
        if end == Stage.FAILED:
            return 0
        if end == Stage.COMPLETED:
            return len(self.items)
        kinds = {Stage.EXPIRED: ("expire",), Stage.CANCELLED: ("cancelled", "cancel_keeps")}[end]
        for kind in kinds:
            if kind in self.plan and self.plan[kind].get("done") is not None:
                return min(int(self.plan[kind].get("done")), len(self.items))
        return self.progress(min(now, self.cancelled_at or now))

    def progress(self, now: float) -> int:
        """How many items are executed by *now*: steadily, one after the other."""
        if self.end is not None:
            return self.done
        takes = self.plan.number("finish_after", "seconds", self.finish_after)
        age = now - self.created_at
        share = 1.0 if takes <= 0 else (age / takes - VALIDATED) / (EXECUTED - VALIDATED)
        return int(len(self.items) * min(max(share, 0.0), 1.0))

    def began(self, share: float) -> int:
        """When it passed this share of its time, in whole seconds."""
        return int(self.created_at + self.plan.number("finish_after", "seconds", self.finish_after) * share)
