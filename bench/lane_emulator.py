"""An emulator whose answers are as long as asked, and as hard to squeeze as prose is.

`python -m bench.lane_emulator 20000` prints its URL; 0 leaves the short sentences that the emulator has of its own.
"""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING, Final

from bench.lane_pass import ANSWERED, BATCH_SECONDS
from penstock.emulator import Emulator

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.emulator import Question

SYLLABLES: Final = ("ba", "den", "fi", "gor", "ha", "jun", "ke", "lo", "mir", "na", "pul", "re", "sto", "ti", "vek")
PARAGRAPH: Final = 2_500


def prose(size: int) -> Callable[[Question], str]:
    """Answers of *size* characters; each is another choice of paragraphs made of some thousand words."""
    random = Random(1)  # noqa: S311 - the same answers in every run
    words = ["".join(random.choices(SYLLABLES, k=random.randint(1, 4))) for _ in range(4_000)]
    paragraphs = [" ".join(random.choices(words, k=PARAGRAPH // 5))[:PARAGRAPH] for _ in range(512)]

    def answer(question: Question) -> str:
        chosen = Random(question.text).choices(paragraphs, k=size // PARAGRAPH + 1)  # noqa: S311 - the same
        return f"{ANSWERED} {' '.join(chosen)}"[:size]

    return answer


def main() -> None:
    """Serve until told to stop."""
    size = int(sys.argv[1])
    emulator = Emulator(finish_after=BATCH_SECONDS, answer=prose(size) if size else None)
    print(emulator.listen(), flush=True)
    emulator.serve()


if __name__ == "__main__":
    main()
