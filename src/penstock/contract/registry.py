"""The documents this engine answers to, and the snapshot that ties it to their versions.

Defaults are configuration: changing one changes nothing here (Q-89). The state
machine and the claiming rules are contract: their digest is kept per MAJOR
version, so that a change without a new version fails a test (Q-90).
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.contract.statuses import MOVES, RANKS, Move, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Standing(StrEnum):
    """How far a document has come; an active contract goes before a paper under review (C-58)."""

    ACTIVE = "active"
    DESIGN_REVIEW = "design_review"


@dataclass(frozen=True, slots=True)
class Document:
    """One source document. *subjects* are what it has the last word on."""

    name: str
    version: str | None
    standing: Standing
    stability: str | None
    scope: str | None
    dated: date | None
    subjects: tuple[str, ...]

    @property
    def major(self) -> int | None:
        """The MAJOR number of the version; None for a document without one."""
        return None if self.version is None else int(self.version.removeprefix("v").partition(".")[0])


QUEUE: Final = Document(
    name="complaint_rewrite_queue_processing_v1",
    version="v1.3",
    standing=Standing.ACTIVE,
    stability="stable",
    scope="backend",
    dated=date(2026, 2, 14),
    subjects=("pickup",),
)
EXECUTION: Final = Document(
    name="complaint_rewrite_async_jobs_v1",
    version="v1.4",
    standing=Standing.ACTIVE,
    stability="stable",
    scope="backend",
    dated=date(2026, 2, 3),
    subjects=("execution",),
)
LANES: Final = Document(
    name="complaint_rewrite_two_lanes_async_v1",
    version="v1.5",
    standing=Standing.ACTIVE,
    stability="stable",
    scope="backend",
    dated=date(2026, 2, 3),
    subjects=("locales", "lane"),
)
CRITICIZER: Final = Document(
    name="Criticizer Processing Specification",
    version=None,
    standing=Standing.ACTIVE,
    stability=None,
    scope=None,
    dated=None,
    subjects=("review_failures",),
)
NOTIFICATION: Final = Document(
    name="Review Notification Processing Spec",
    version=None,
    standing=Standing.ACTIVE,
    stability=None,
    scope=None,
    dated=None,
    subjects=("delivery",),
)
DISPATCH: Final = Document(
    name="Job Dispatch Redesign",
    version=None,
    standing=Standing.DESIGN_REVIEW,  # its checklist shows approval, its footer does not; the footer counts
    stability=None,
    scope=None,
    dated=date(2025, 12, 29),
    subjects=("dispatch",),
)

_CLAIM_COLUMNS: Final = frozenset({"status", "claim_seq", "claimed_at", "claimed_by", "lease_expires_at", "ready"})

DOCUMENTS: Final = (QUEUE, EXECUTION, LANES, CRITICIZER, NOTIFICATION, DISPATCH)


def prevailing(subject: str, *documents: Document) -> Document:
    """Which of *documents* rules on *subject* where they cannot all hold (C-58).

    The one whose subject it is; else an active contract before a paper under
    review; else the first named.
    """
    return min(documents, key=lambda document: (subject not in document.subjects, document.standing != Standing.ACTIVE))


def claim_rules(statement: str) -> tuple[str, ...]:
    """What a claim statement decides, whatever its wording: columns set, eligibility, order, locking.

    A faster plan for the same rules keeps its digest; another order or another
    predicate does not.
    """
    text = re.sub(r"\s+", " ", re.sub(r"--[^\n]*", " ", statement)).strip().lower()
    text = re.sub(r"\b[a-z_]+\.(?=[a-z_])", "", text)  # without the names of tables
    change = re.search(r" set (.*?) (?:from|where) ", text)
    columns = re.findall(r"(\w+) = ", change[1] if change else "")
    rules = {f"sets {column}" for column in columns if column in _CLAIM_COLUMNS}
    rules |= set(re.findall(r"status = '\w+'|(?:and|where) (?:not )?ready\b|run_at <= now\(\)", text))
    rules |= set(re.findall(r"for update skip locked", text))
    if "claim_seq" in columns:
        rules |= set(re.findall(r"order by (.*?) limit", text))
    return tuple(sorted(rules))


def machine_digest(claim_statements: Iterable[str], moves: Mapping[tuple[Status, Move], Status] | None = None) -> str:
    """The digest of statuses, moves, ranks and claiming rules."""
    table = MOVES if moves is None else moves
    snapshot = {
        "statuses": sorted(Status),
        "moves": sorted(f"{status} {move} {after}" for (status, move), after in table.items()),
        "ranks": {status.value: rank for status, rank in RANKS.items()},
        "claim": [claim_rules(statement) for statement in claim_statements],
    }
    return hashlib.sha256(json.dumps(snapshot, sort_keys=True).encode()).hexdigest()


# MAJOR version of the queue contract -> digest. A new digest needs a new MAJOR version beside it.
SNAPSHOTS: Final[Mapping[int, str]] = {
    1: "94d24b0a6d7b03457953c5cfc68b72abab0431c9ff57de41fb27c3e489337b7a",
}
