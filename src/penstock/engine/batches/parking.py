"""The parking lot: claims whose requests wait for the end of the claiming part of a submitter's run.

A parked claim stays held: the heartbeat renews its lease, an operator's cancel
still takes it out, and a shutdown gives it back with no attempt used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.contract.calls import Request
    from penstock.engine.running import Running


@dataclass(frozen=True, slots=True)
class ParkedClaim:
    """One claim and what it wants to ask."""

    running: Running
    request: Request


class ParkingLot:
    """The parked claims of one run."""

    def __init__(self) -> None:
        self._parked: list[ParkedClaim] = []

    def __len__(self) -> int:
        """How many wait."""
        return len(self._parked)

    def park(self, running: Running, request: Request) -> None:
        """Keep a claim until it is submitted."""
        self._parked.append(ParkedClaim(running, request))

    def leave(self) -> list[ParkedClaim]:
        """Everything parked; the lot is empty then."""
        parked, self._parked = self._parked, []
        return parked
