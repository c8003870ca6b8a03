"""What all parts of one worker share."""

from __future__ import annotations

import random as _random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from penstock.engine.running import Running
    from penstock.store.connect import Pool


@dataclass(slots=True)
class Workplace:
    """The worker's name, its connections and what it holds."""

    worker_id: str
    pool: Pool
    profile: str = "base"
    held: dict[UUID, Running] = field(default_factory=dict)
    random: Callable[[], float] = _random.random
