"""From parked claims to parts: what shares a group goes together, cut by what one batch of its provider may hold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from penstock.contract.custom_ids import custom_id
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.groups import BatchKey, batch_key
from penstock.contract.keys import uuid7
from penstock.store.submissions import Draft, Item

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable

    from penstock.engine.batches.parking import ParkedClaim
    from penstock.providers.port import BatchAdapter


PARTS: Final = 8
MOST_PARTED: Final = 3  # 512 parts: as good as alone
NOBODY: Final[Mapping[UUID, int]] = {}


class Shelf(NamedTuple):
    """Claims whose requests may go into one batch: the same type and stage, the same group, the same address.

    Jobs that were refused together and nobody knows why are parted, so that
    one bad request among them is alone before its refusals count.
    """

    job_type: str
    stage: str
    key: BatchKey
    parted: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Part:
    """One batch to be: its claims and their lines, in order. Each line holds one request of one user (A-56)."""

    batch_id: UUID = field(default_factory=uuid7)
    members: list[ParkedClaim] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, member: ParkedClaim, name: str, line: bytes) -> None:
        """Take one line in."""
        claim = member.running.claim
        self.members.append(member)
        self.items.append(Item(claim.job_id, claim.claim_seq, member.running.attempts + 1, name))
        self.lines.append(line)
        self.size += len(line) + 1

    def draft(self, shelf: Shelf, run_id: UUID) -> Draft:
        """The rows that are committed before anything is sent."""
        digest = hashlib.sha256()
        for line in self.lines:
            digest.update(line + b"\n")
        return Draft(
            self.batch_id, shelf.job_type, shelf.stage, shelf.key, run_id, self.size, digest.hexdigest(), self.items
        )


@dataclass(frozen=True, slots=True)
class Misfit:
    """A claim whose request can go into no batch at all, and why."""

    member: ParkedClaim
    error: Exception


def shelved(parked: Iterable[ParkedClaim], refusals: Mapping[UUID, int] = NOBODY) -> dict[Shelf, list[ParkedClaim]]:
    """Claims by what they may share, in the order in which they were parked (Q-73, C-33).

    *refusals*: how often a job's batch was refused without a reason. Each time
    its next one holds an eighth of those that were refused with it.
    """
    shelves: dict[Shelf, list[ParkedClaim]] = {}
    for member in parked:
        claim = member.running.claim
        times = min(refusals.get(claim.job_id, 0), MOST_PARTED)
        parted = times, claim.job_id.int % PARTS**times
        shelf = Shelf(claim.job_type, claim.stage, batch_key(member.request.route), parted)
        shelves.setdefault(shelf, []).append(member)
    return shelves


def pack(adapter: BatchAdapter, waiting: deque[ParkedClaim]) -> tuple[Part, list[Misfit]]:
    """Take from the front of *waiting* what fits into one batch; what fits into none is set aside."""
    part, misfits = Part(), []
    limits = adapter.limits
    while waiting and len(part.lines) < limits.items:
        member = waiting[0]
        name = custom_id(part.batch_id, len(part.lines), member.running.claim.claim_seq)
        try:
            line = _line(adapter, name, member)
        except Exception as error:  # whatever is wrong with this request is wrong with no other
            misfits.append(Misfit(waiting.popleft(), error))
            continue
        if part.size + len(line) + 1 > limits.body_bytes:
            break
        part.add(waiting.popleft(), name, line)
    return part, misfits


def _line(adapter: BatchAdapter, name: str, member: ParkedClaim) -> bytes:
    line = adapter.line(name, member.request)
    if len(line) + 1 > adapter.limits.body_bytes:
        raise Failed(
            FailureClass.PAYLOAD_REJECTED,
            f"this request alone is larger than the {adapter.limits.body_bytes / 1e6:g} MB of a whole batch; send less",
        )
    return line
