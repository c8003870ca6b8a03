"""The lines of OpenAI's output and error files."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from penstock.emulator.batches import Batch
from penstock.emulator.openai.asking import question_of
from penstock.emulator.openai.bodies import answer_body
from penstock.emulator.questions import Question, compact
from penstock.emulator.replies import error_body
from penstock.emulator.results import Fate, Outcome, error_of
from penstock.emulator.world import World


class Lines:
    """Makes lines; the same outcome gives the same bytes every time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def render(self, batch: Batch, outcome: Outcome) -> bytes:
        """One line."""
        made = sha256(f"{batch.id}:{outcome.custom_id}:{outcome.differs}".encode()).hexdigest()[:24]
        line: dict[str, Any] = {
            "id": f"batch_req_{made}",
            "custom_id": outcome.custom_id,
            "response": None,
            "error": None,
        }
        match outcome.fate:
            case Fate.ZERO:
                line["response"] = {"status_code": 0, "request_id": "", "body": {}}
            case Fate.EXPIRED:
                line["error"] = {
                    "code": "batch_expired",
                    "message": "This request could not be executed before the completion window expired.",
                }
            case Fate.CANCELED:
                line["error"] = {
                    "code": "batch_cancelled",
                    "message": "This request was not executed: the batch was cancelled.",
                }
            case Fate.ERRORED:
                line["response"] = self._refused(made, *error_of(outcome))
            case Fate.ANSWERED:
                line["response"] = self._answered(batch, outcome, made)
        return compact(line).encode("utf-8", "surrogatepass")

    @staticmethod
    def _refused(made: str, status: int, code: str | None, message: str, param: str | None) -> dict[str, Any]:
        body = error_body("openai", status, code, message, param)
        return {"status_code": status, "request_id": f"req_{made}", "body": body}

    def question(self, batch: Batch, outcome: Outcome) -> Question:
        """What the item asks; raises `Refused` when the service would refuse it."""
        body = batch.items[outcome.index].body()["body"]
        return question_of(self._world, batch.endpoint, body, outcome.custom_id)

    def _answered(self, batch: Batch, outcome: Outcome, made: str) -> dict[str, Any]:
        question = self.question(batch, outcome)
        text = self._world.item_answer(batch, outcome, question)
        at = batch.ended_at or batch.created_at
        answer = answer_body(batch.endpoint, made, at, question, text, outcome.rule)
        return {"status_code": 200, "request_id": f"req_{made}", "body": answer}
