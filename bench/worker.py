"""A worker process: `python -m bench.worker '{...}'`, one per contestant process."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict, dataclass

from bench.board import Board, Shape
from bench.contestant import Duty, load


@dataclass(frozen=True, slots=True)
class Order:
    """What the harness hands to the process on its command line."""

    contestant: str
    dsn: str
    board: str
    jobs: int
    slots: int
    slot: int
    concurrency: int = 0
    hang: bool = False
    lease: float = 0.0

    def command(self) -> list[str]:
        """The command line that carries it."""
        return [sys.executable, "-m", "bench.worker", json.dumps(asdict(self))]


def main(order: Order) -> None:
    """Import everything first, wait at the gate, then work: start-up is nobody's throughput."""
    logging.basicConfig(level=logging.WARNING)
    contestant = load(order.contestant)
    board = Board(Shape(order.board, order.jobs, order.slots))
    duty = Duty(order.dsn, board.regions[order.slot], order.concurrency, order.hang, order.lease)
    board.wait_at_gate(order.slot)
    contestant.work(duty)


if __name__ == "__main__":
    main(Order(**json.loads(sys.argv[1])))
