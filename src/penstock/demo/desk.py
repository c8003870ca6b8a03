"""The second application of the demo: a help desk that lets models put its answers politely.

    answer  one ticket, one question; waits in a provider's batch, or asks at once when it is urgent

Where a ticket goes was decided when it was enqueued and stands in the job. The
providers are the emulator on loopback; the adapters and their SDKs are real.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock import FailureClass, Penstock, Schedule
from penstock.contract.calls import Execution, Request, Route
from penstock.contract.errors import Failed

if TYPE_CHECKING:
    from penstock.contract.calls import Answer
    from penstock.engine.batches.lane import LaneJob
    from penstock.store.claims import Transaction

KEY: Final = "a-key-for-the-emulator"
MODELS: Final = {  # provider → (model, adapter)
    "openai": ("gpt-5-mini", "openai_responses"),
    "gemini": ("gemini-2.5-flash", "gemini_generate"),
    "anthropic": ("claude-haiku-4-5", "anthropic_messages"),
}
LANGUAGES: Final = {"en-US": "English", "de-DE": "German", "es-ES": "Spanish"}
PRICES: Final = {  # per million tokens; examples, not anybody's price list
    "gpt-5-mini": {"input": "0.25", "output": "2.00"},
    "gemini-2.5-flash": {"input": "0.30", "output": "2.50"},
    "claude-haiku-4-5": {"input": "1.00", "output": "5.00"},
}
SCHEMA: Final = {
    "type": "object",
    "properties": {"reply": {"type": "string"}, "mood": {"type": "string", "enum": ["calm", "upset", "furious"]}},
    "required": ["reply", "mood"],
    "additionalProperties": False,
}

app = Penstock(
    openai_api_key=KEY,
    gemini_api_key=KEY,
    anthropic_api_key=KEY,
    prices=json.dumps({"currency": "USD", "models": PRICES}),
    log_level="error",  # what goes wrong on purpose is told by the play
)


@dataclass(frozen=True)
class Ticket:
    """One ticket, and where its question goes."""

    ticket_id: int
    text: str
    provider: str
    language: str
    address: str  # of the emulator, for this provider
    urgent: bool = False

    @property
    def route(self) -> Route:
        """The same for every try."""
        model, adapter = MODELS[self.provider]
        way = Execution.ASYNC if self.urgent else Execution.BATCH
        return Route(self.provider, model, adapter, self.address, way, target_locale=self.language)


def build(_job: LaneJob, ticket: Ticket) -> Request:
    """One question, with the text of one customer in it."""
    wanted = f"Answer this customer politely in {LANGUAGES[ticket.language]}. Repeat the number of the ticket."
    return Request(ticket.route, wanted, ticket.text)


def accept(_job: LaneJob, ticket: Ticket, answer: Answer) -> dict[str, str]:
    """The answer fits the schema by now; it must also be about this ticket."""
    found: dict[str, str] = answer.data
    if f"#{ticket.ticket_id}:" not in found["reply"]:
        raise Failed(FailureClass.SCHEMA_INVALID)
    return found


async def persist(_job: LaneJob, ticket: Ticket, found: dict[str, Any], connection: Transaction) -> None:
    """In the transaction that ends the job."""
    await connection.execute(
        "insert into desk.replies (ticket_id, mood, reply) values ($1, $2, $3)",
        ticket.ticket_id,
        found["mood"],
        found["reply"],
    )


answer = app.lane(
    "answer",
    build=build,
    accept=accept,
    persist=persist,
    schema=SCHEMA,
    args=Ticket,
    attempts=3,
    backoff=Schedule([60.0]),
    log_ids=("ticket_id",),
)
