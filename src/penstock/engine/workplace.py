"""What all parts of one worker share."""

from __future__ import annotations

import random as _random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.contract.prices import Prices

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from penstock.engine.batches.asking import Adapters
    from penstock.engine.batches.parking import ParkingLot
    from penstock.engine.lending import Lender
    from penstock.engine.running import Running
    from penstock.store.connect import Pool


@dataclass(slots=True)
class Workplace:
    """The worker's name, its connections and what it holds."""

    worker_id: str
    pool: Pool  # for short statements only; handlers' transactions have the lender's
    lender: Lender
    profile: str = "base"
    held: dict[UUID, Running] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)  # types that are claimed one claim at a time, under their limits
    gate_freed: bool = False  # one of their jobs has ended: there may be room for the next
    random: Callable[[], float] = _random.random
    adapters: Callable[[], Adapters] | None = None  # the way to the providers; none: this worker asks nobody
    prices: Prices = field(default_factory=Prices)  # of the models that are asked here
    parking: ParkingLot | None = None  # only a submitter's run has one
