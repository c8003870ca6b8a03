"""Everything the emulated providers know: files, batches, and what was asked of them. Memory only."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any, Final

from penstock.emulator.answers import Answering, Answers
from penstock.emulator.batches import Batch
from penstock.emulator.clock import Clock
from penstock.emulator.deliveries import Deliveries
from penstock.emulator.faults import CHANNELS, PROVIDERS, Faults, Occasion, Rule
from penstock.emulator.files import File
from penstock.emulator.flaws import spoil
from penstock.emulator.kinds import Family
from penstock.emulator.plans import Plan
from penstock.emulator.questions import Question
from penstock.emulator.results import Outcome

CALLS_KEPT: Final = 20_000
MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """How the emulator behaves. *keys*: API key → project; None accepts every key, all in one project."""

    finish_after: float = 1.0  # seconds from the creation of a batch to its end
    cancel_after: float = 0.0  # seconds from a cancel to the end
    seed: int = 0
    keys: Mapping[str, str] | None = None
    models: Sequence[str] | None = None  # None: every model exists
    max_items: int = 50_000
    max_file_bytes: int = 200 * MEGABYTE
    file_active_after: float = 0.0  # Gemini: seconds that an upload is PROCESSING
    webhook_secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A request that arrived: no text, no key."""

    provider: str
    method: str
    path: str
    at: float
    status: int | None  # None: the connection was closed instead
    faults: tuple[str, ...] = ()


@dataclass
class World:
    """One emulator's memory."""

    settings: Settings
    clock: Clock
    faults: Faults
    answers: Answers
    files: dict[str, File] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    deliveries: Deliveries = field(default_factory=Deliveries)
    smtp_port: int | None = None  # where mails are taken, if they are
    calls: deque[Call] = field(default_factory=lambda: deque(maxlen=CALLS_KEPT))
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[Exception] = field(default_factory=list)  # bugs of the emulator itself
    publish: dict[str, Callable[[Batch], None]] = field(default_factory=dict)  # by provider: files of an ended batch
    random: Random = field(default_factory=Random)
    _settling: Lock = field(default_factory=Lock)

    @classmethod
    def create(cls, settings: Settings, *, frozen: bool = False, answer: Answering | None = None) -> World:
        """An empty world."""
        random = Random(settings.seed)  # noqa: S311 - ids are to be repeatable
        return cls(settings, Clock(frozen=frozen), Faults(settings.seed), Answers(answer), random=random)

    def new_id(self, prefix: str) -> str:
        """An id that nothing else has."""
        return f"{prefix}{self.random.getrandbits(96):024x}"

    def settle(self) -> None:
        """Bring every batch up to the present; those that have ended get their files."""
        with self._settling:  # a test may ask while the server answers
            now = self.clock.now()
            for batch in list(self.batches.values()):
                if batch.settle(now):
                    self.publish[batch.provider](batch)

    def plan(self, occasion: Occasion) -> Plan:
        """What will go wrong with a batch that is being created."""
        families = {Family.BATCH, Family.ITEM, Family.ANSWER}
        return Plan(self.faults.striking(families, occasion, "batch"), self.settings.seed)

    def answer(self, question: Question) -> tuple[str, Rule | None]:
        """What a model says to a single call, and what spoils it."""
        text = f"{question.instructions}\n{question.text}"
        occasion = Occasion(question.provider, text=lambda: text)
        struck = self.faults.striking({Family.ANSWER}, occasion, "call")
        rule = struck[0] if struck else None
        return spoil(self.answers.text(question), rule), rule

    def item_answer(self, batch: Batch, outcome: Outcome, question: Question) -> str:
        """What a model says to an item; asked once, however often the results are read."""
        if outcome.index not in batch.texts:
            batch.texts[outcome.index] = self.answers.text(question)
        return spoil(batch.texts[outcome.index], outcome.rule, differs=outcome.differs)

    def visible(self, provider: str, project: str) -> Iterator[Batch]:
        """The batches that a list shows, newest first."""
        now = self.clock.now()
        for batch in reversed(list(self.batches.values())):
            delay = batch.plan.number("list_delay", "seconds", 0)
            mine = batch.provider == provider and batch.project == project
            if mine and now >= batch.created_at + delay and not self.vanished(batch):
                yield batch

    def vanished(self, batch: Batch) -> bool:
        """Whether the provider has lost it."""
        rule = batch.plan.get("vanish")
        return rule is not None and self.clock.now() >= batch.created_at + float(rule.get("after", 0))

    def polled(self, provider: str, project: str, batch_id: str) -> Batch | None:
        """The batch as a poll finds it; None is a 404."""
        self.settle()
        batch = self.batches.get(batch_id)
        if batch is None or batch.provider != provider or batch.project != project or self.vanished(batch):
            return None
        batch.polls += 1
        return None if batch.polls <= batch.plan.number("not_found", "polls", 0) else batch

    def reset(self) -> None:
        """Forget everything that was sent; settings, clock and the answering function stay."""
        self.files.clear()
        self.batches.clear()
        self.deliveries.clear()
        self.calls.clear()
        self.counts.clear()
        self.faults.clear()
        self.answers.clear()

    def state(self) -> dict[str, Any]:
        """Counts for those who check: files, batches, calls and, per submission, its batches."""
        self.settle()
        providers = {provider: self._state_of(provider) for provider in PROVIDERS}
        channels = {channel: self._sent_over(channel) for channel in CHANNELS}
        return {"now": self.clock.now(), "smtp_port": self.smtp_port, **providers, **channels}

    def _sent_over(self, channel: str) -> dict[str, Any]:
        return {"calls": self._calls_of(channel), "deliveries": self.deliveries.by_token(channel)}

    def _calls_of(self, name: str) -> dict[str, int]:
        return {what: many for (who, what), many in sorted(self.counts.items()) if who == name}

    def _state_of(self, provider: str) -> dict[str, Any]:
        batches = [batch for batch in list(self.batches.values()) if batch.provider == provider]
        now = self.clock.now()
        return {
            "files": sum(file.provider == provider for file in list(self.files.values())),
            "batches": len(batches),
            "calls": self._calls_of(provider),
            "stages": dict(Counter(str(batch.stage(now)) for batch in batches)),
            "tokens": _by_token(batches),
        }


def _by_token(batches: list[Batch]) -> dict[str, dict[str, Any]]:
    """Per submission: how many were created, how many are live, how many were ever executed to the end."""
    found: dict[str, dict[str, Any]] = {}
    for batch in batches:
        entry = found.setdefault(batch.token, {"created": 0, "live": 0, "kept": 0, "items": 0, "ids": []})
        entry["created"] += 1
        entry["live"] += batch.live
        entry["kept"] += batch.cancelled_at is None and batch.end not in {"failed", "cancelled"}
        entry["items"] += len(batch.items)
        entry["ids"].append(batch.id)
    return found


def occasion_of(batch: Batch, method: str, path: str) -> Occasion:
    """The creation of a batch, as faults see it."""
    return Occasion(
        batch.provider,
        method,
        path,
        token=f"{batch.label} {batch.token}",
        custom_ids=lambda: [item.custom_id for item in batch.items],
        text=lambda: "\n".join(bytes(item.raw).decode("utf-8", "replace") for item in batch.items),
    )
