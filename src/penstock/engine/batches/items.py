"""Items of a batch on their way back: the lines of the provider, sorted by whose they are, and the jobs behind them."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.calls import NOTHING
from penstock.contract.classify import Failure
from penstock.contract.errors import SettingsInvalid
from penstock.contract.failures import FailureClass
from penstock.engine.effects import decode_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.contract.calls import Answer, Usage
    from penstock.contract.policies import Policy
    from penstock.providers.port import ItemResult
    from penstock.store.batch_items import Name
    from penstock.store.connect import Record

ROOMY: Final = 32_000_000  # bytes of answers that wait as they are; beyond that each is squeezed
AMBIGUOUS: Final = Failure(FailureClass.BATCH_ITEM_AMBIGUOUS, retryable=False)
MISSING: Final = Failure(FailureClass.BATCH_ITEM_MISSING, retryable=False)
EXPIRED: Final = Failure(FailureClass.BATCH_EXPIRED, retryable=True)
UNEXPLAINED: Final = Failure(FailureClass.UPSTREAM_5XX, retryable=True)  # refused as a whole, and nobody says why
REFUSED: Final = "BATCH_REFUSED"  # why a job went back uncharged from such a batch
PATIENT: Final = 3  # times that one job does; the next one counts


@dataclass(slots=True)
class Line:
    """What is known of one item: an answer, why there is none, or that its job simply goes back.

    A failure beside *back* is what it fails of once its job has gone back too often.
    """

    answer: Answer | None = field(default=None, repr=False)
    failure: Failure | None = None
    back: timedelta | None = None  # nothing was executed: after so long the job tries again, uncharged
    code: str | None = None  # why, for a job that goes back
    at: datetime | None = None
    digest: str = ""
    used: Usage = NOTHING  # by an answer that counts for nothing
    _packed: bytes | None = field(default=None, repr=False)  # the answer's text while the line waits for its turn
    _squeezed: bool = False
    _parsed: bool = False  # its data can be read from its text again

    @property
    def usage(self) -> Usage:
        """What it used, as the provider counted it, whatever became of it."""
        return self.used if self.answer is None else self.answer.usage

    def pack(self, *, squeeze: bool = False) -> int:
        """Hold the answer as bytes, and tell how many: text takes up to four times as much."""
        if self.answer is not None:
            plain = self.answer.text.encode("utf-8", "surrogatepass")
            self._packed = zlib.compress(plain, 1) if squeeze else plain
            self._squeezed = squeeze
            self._parsed = self.answer.data is not None and _reads_as(self.answer.text, self.answer.data)
            self.answer = replace(self.answer, text="", data=None if self._parsed else self.answer.data)
        return len(self._packed or b"")

    def unpack(self) -> Line:
        """The answer as it was, for the one moment in which it is judged."""
        if self._packed is not None and self.answer is not None:
            plain = zlib.decompress(self._packed) if self._squeezed else self._packed
            text = plain.decode("utf-8", "surrogatepass")
            self.answer = replace(self.answer, text=text, data=json.loads(text) if self._parsed else self.answer.data)
            self._packed = None
        return self

    def same_as(self, result: ItemResult) -> bool:
        """Whether *result* says the same once more."""
        return bool(self.digest) and self.digest == result.digest


@dataclass(slots=True)
class Sheet:
    """The results of one batch, by custom id; no line of it is trusted yet."""

    lines: dict[str, Line] = field(default_factory=dict)
    unknown: int = 0  # lines of nobody, or of another batch
    doubled: int = 0  # items that have several lines, equal or not
    found: int = 0  # items of the batch that have a line, settled ones included


async def gather(results: AsyncIterator[ItemResult], names: Mapping[str, Name]) -> Sheet:
    """Read all results and sort them by the items of the batch, by custom id and never by position (A-57, A-93).

    An item with two equal lines has one; an item with two that differ has
    none that can be trusted (C-37). Lines of items that have ended are dropped.
    """
    sheet = Sheet()
    seen: dict[str, str] = {}
    doubled: set[str] = set()
    held = 0
    async for result in results:
        name = names.get(result.custom_id)
        if name is None:
            sheet.unknown += 1
            continue
        known = sheet.lines.get(result.custom_id)
        if result.custom_id in seen:
            doubled.add(result.custom_id)
            if known is not None and not known.same_as(result):
                sheet.lines[result.custom_id] = Line(failure=AMBIGUOUS, at=result.at, digest="?", used=known.usage)
            continue
        seen[result.custom_id] = result.digest
        if name.open:
            at = result.at or _time_of(result.answer)
            line = Line(result.answer, result.failure, at=at, digest=result.digest, used=result.usage)
            sheet.lines[result.custom_id] = line
            held += line.pack(squeeze=held > ROOMY)
    sheet.doubled, sheet.found = len(doubled), len(seen)
    return sheet


class ParkedJob:
    """A job that waits for its item, as `accept` and `persist` see it (the `LaneJob` of a collector)."""

    __slots__ = ("_results", "_row", "policy")

    def __init__(self, row: Record, policy: Policy, results: Mapping[str, str | None]) -> None:
        self._row = row
        self._results = results
        self.policy = policy

    @property
    def job_id(self) -> UUID:
        """The id of the job."""
        found: UUID = self._row["job_id"]
        return found

    @property
    def root_job_id(self) -> UUID:
        """The id of the job that this one replays, or its own."""
        return self._row["replay_of_job_id"] or self.job_id

    @property
    def job_type(self) -> str:
        """The type's name."""
        return self.policy.job_type

    @property
    def stage(self) -> str:
        """The stage that asked."""
        return str(self._row["stage"])

    @property
    def attempt(self) -> int:
        """The ordinal of this attempt of the stage, from 1."""
        return int(self._row["attempts"]) + 1

    @property
    def claim_seq(self) -> int:
        """The fence of the claim that asked."""
        return int(self._row["claim_seq"])

    @property
    def created_at(self) -> datetime:
        """When the job was enqueued."""
        found: datetime = self._row["created_at"]
        return found

    def result(self, stage: str) -> Any:
        """What the finished *stage* returned."""
        if stage not in self._results:
            raise SettingsInvalid(f"stage {stage!r} of job {self.job_id} has no result: it has not finished")
        return decode_result(self._results[stage])

    def __repr__(self) -> str:
        """Ids only."""
        return f"<parked job {self.job_id} ({self.job_type}, {self.stage}, attempt {self.attempt})>"


def _time_of(answer: Answer | None) -> datetime | None:
    return None if answer is None else answer.at


def _reads_as(text: str, data: Any) -> bool:
    try:
        return bool(json.loads(text) == data)
    except (ValueError, RecursionError):
        return False
