"""The lines of Gemini's result file."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from penstock.emulator.batches import Batch
from penstock.emulator.gemini.asking import answer_body, question_of
from penstock.emulator.questions import Question, compact
from penstock.emulator.results import Fate, Outcome, error_of
from penstock.emulator.world import World

RPC: Final[Mapping[int, int]] = {400: 3, 401: 16, 403: 7, 404: 5, 409: 10, 429: 8, 500: 13, 503: 14, 504: 4}
UNKNOWN: Final = 2


class Lines:
    """Makes lines; the same outcome gives the same bytes every time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def question(self, batch: Batch, outcome: Outcome) -> Question:
        """What the item asks; raises `Refused` when the service would refuse it."""
        body = batch.items[outcome.index].body()["request"]
        return question_of(self._world, batch.model, body, outcome.custom_id)

    def render(self, batch: Batch, outcome: Outcome) -> bytes:
        """One line: a response or an error."""
        line: dict[str, Any] = {"key": outcome.custom_id}
        match outcome.fate:
            case Fate.ANSWERED:
                question = self.question(batch, outcome)
                text = self._world.item_answer(batch, outcome, question)
                made = sha256(f"{batch.id}:{outcome.custom_id}:{outcome.differs}".encode()).hexdigest()[:24]
                line["response"] = answer_body(made, question, text, outcome.rule)
            case Fate.ZERO:
                line["response"] = {}
            case Fate.ERRORED:
                status, _, message, _ = error_of(outcome)
                line["error"] = {"code": RPC.get(status, UNKNOWN), "message": message}
            case Fate.EXPIRED:
                line["error"] = {"code": 4, "message": "The request expired."}
            case Fate.CANCELED:
                line["error"] = {"code": 1, "message": "The request was cancelled."}
        return compact(line).encode("utf-8", "surrogatepass")
