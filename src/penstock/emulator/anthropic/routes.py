"""Messages and message batches. A batch has no metadata and no name: only its ended results tell whose it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.emulator.anthropic.asking import allowed, answer_body, question_of
from penstock.emulator.batches import Batch, Item
from penstock.emulator.clock import iso
from penstock.emulator.desk import json_body, page, refusing, whole
from penstock.emulator.files import Written
from penstock.emulator.questions import Question, compact
from penstock.emulator.replies import Refused, error_body
from penstock.emulator.results import Fate, Outcome, count, error_of, examined, lines, outcomes
from penstock.emulator.world import World, occasion_of

MOST_REQUESTS: Final = 100_000
_CUSTOM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Messages:
    """Everything of the service."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._results: dict[str, Written] = {}
        world.publish["anthropic"] = self._publish

    def routes(self) -> list[Route]:
        """Where it answers."""
        table = (
            ("/v1/messages", "POST", self.message),
            ("/v1/messages/batches", "POST", self.create),
            ("/v1/messages/batches", "GET", self.list_all),
            ("/v1/messages/batches/{id}", "GET", self.retrieve),
            ("/v1/messages/batches/{id}", "DELETE", self.delete),
            ("/v1/messages/batches/{id}/cancel", "POST", self.cancel),
            ("/v1/messages/batches/{id}/results", "GET", self.results),
        )
        return [Route(path, refusing("anthropic", handler), methods=[method]) for path, method, handler in table]

    async def message(self, request: Request) -> Response:
        """One message."""
        allowed(self._world, request)
        question = question_of(self._world, await json_body(request))
        text, rule = self._world.answer(question)
        made = answer_body(self._world.new_id(""), question, text, rule)
        return JSONResponse(made, headers={"request-id": self._world.new_id("req_")})

    async def create(self, request: Request) -> Response:
        """Take a batch, all of its requests in one body."""
        project = allowed(self._world, request)
        items = _items((await json_body(request)).get("requests"))
        batch = Batch(
            self._world.new_id("msgbatch_"),
            "anthropic",
            project,
            self._world.clock.now(),
            items,
            self._world.settings.finish_after,
            self._world.settings.cancel_after,
        )
        batch.plan = self._world.plan(occasion_of(batch, request.method, request.url.path))
        self._world.batches[batch.id] = batch
        return JSONResponse(self._shown(batch, request))

    async def retrieve(self, request: Request) -> Response:
        """One batch as it stands."""
        return JSONResponse(self._shown(self._batch(request), request))

    async def list_all(self, request: Request) -> Response:
        """Batches, newest first."""
        project = allowed(self._world, request)
        self._world.settle()
        limit = whole(request, "limit", 20, 1000)
        every = self._world.visible("anthropic", project)
        found, more = page(every, lambda batch: batch.id, request.query_params.get("after_id"), limit)
        ids = {"first_id": found[0].id if found else None, "last_id": found[-1].id if found else None}
        return JSONResponse({"data": [self._shown(batch, request) for batch in found], "has_more": more, **ids})

    async def cancel(self, request: Request) -> Response:
        """Stop a batch that is under way."""
        batch = self._batch(request)
        if batch.end is not None:
            raise Refused(400, None, f"Batch {batch.id} has ended and cannot be canceled.")
        batch.cancel(self._world.clock.now())
        return JSONResponse(self._shown(batch, request))

    async def delete(self, request: Request) -> Response:
        """Forget a batch that has ended, and its results."""
        batch = self._batch(request)
        if batch.end is None:
            raise Refused(400, None, f"Batch {batch.id} is in progress: cancel it first.")
        del self._world.batches[batch.id]
        return JSONResponse({"id": batch.id, "type": "message_batch_deleted"})

    async def results(self, request: Request) -> Response:
        """The results of an ended batch, as they are made."""
        batch = self._batch(request)
        found = self._results.get(batch.id)
        if batch.end is None or found is None:
            raise Refused(404, None, f"No results for batch {batch.id}.")
        return StreamingResponse(found.chunks(), media_type="application/x-jsonl")

    def _batch(self, request: Request) -> Batch:
        project = allowed(self._world, request)
        batch_id = request.path_params["id"]
        batch = self._world.polled("anthropic", project, batch_id)
        if batch is None:
            raise Refused(404, None, f"Batch {batch_id} not found.")
        return batch

    def _publish(self, batch: Batch) -> None:
        every = examined(batch, outcomes(batch), self._question)
        count(batch, every)
        if "no_output" not in batch.plan:
            self._results[batch.id] = Written(lambda: lines(batch, every, self._render))

    def _question(self, batch: Batch, outcome: Outcome) -> Question:
        return question_of(self._world, batch.items[outcome.index].body(), outcome.custom_id)

    def _render(self, batch: Batch, outcome: Outcome) -> bytes:
        """One line of the results."""
        return compact({"custom_id": outcome.custom_id, "result": self._result(batch, outcome)}).encode(
            "utf-8", "surrogatepass"
        )

    def _result(self, batch: Batch, outcome: Outcome) -> dict[str, Any]:
        match outcome.fate:
            case Fate.ANSWERED:
                question = self._question(batch, outcome)
                text = self._world.item_answer(batch, outcome, question)
                made = sha256(f"{batch.id}:{outcome.custom_id}:{outcome.differs}".encode()).hexdigest()[:24]
                return {"type": "succeeded", "message": answer_body(made, question, text, outcome.rule)}
            case Fate.EXPIRED | Fate.CANCELED as fate:
                return {"type": str(fate)}
            case Fate.ZERO:
                return {"type": "errored", "error": error_body("anthropic", 500, None, "Internal server error")}
            case _:
                return {"type": "errored", "error": error_body("anthropic", *error_of(outcome))}

    def _shown(self, batch: Batch, request: Request) -> dict[str, Any]:
        ended = batch.end is not None
        word = "ended" if ended else "canceling" if batch.cancelled_at else "in_progress"
        if ended and "state" in batch.plan:
            word = str(batch.plan["state"].get("word"))
        url = f"{request.url.scheme}://{request.url.netloc}/anthropic/v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": word,
            "request_counts": _counts(batch),
            "created_at": iso(batch.created_at),
            "expires_at": iso(batch.created_at + batch.window),
            "ended_at": iso(batch.ended_at) if batch.ended_at else None,
            "cancel_initiated_at": iso(batch.cancelled_at) if batch.cancelled_at else None,
            "archived_at": None,
            "results_url": url if ended and batch.id in self._results else None,
        }


def _items(requests: Any) -> list[Item]:
    """The items of a create, refused as a whole when one of them is impossible."""
    if not isinstance(requests, list) or not requests or len(requests) > MOST_REQUESTS:
        raise Refused(400, None, f"requests: a batch takes 1 to {MOST_REQUESTS} requests")
    seen: set[str] = set()
    items = []
    for number, each in enumerate(requests):
        custom_id, params = _parts(each, number)
        if custom_id in seen:
            raise Refused(400, None, f"requests.{number}.custom_id: custom_id must be unique within the batch")
        seen.add(custom_id)
        items.append(Item(custom_id, json.dumps(params, ensure_ascii=False).encode()))
    return items


def _parts(each: Any, number: int) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(each, dict) or not isinstance(each.get("params"), dict):
        raise Refused(400, None, f"requests.{number}.params: Field required")
    custom_id = each.get("custom_id")
    if not isinstance(custom_id, str) or not _CUSTOM_ID.fullmatch(custom_id):
        raise Refused(400, None, f"requests.{number}.custom_id: String should match pattern '{_CUSTOM_ID.pattern}'")
    return custom_id, each["params"]


def _counts(batch: Batch) -> dict[str, int]:
    """Everything is processing until the whole batch has ended."""
    names = ("succeeded", "errored", "canceled", "expired")
    if batch.end is None:
        return {"processing": len(batch.items), **dict.fromkeys(names, 0)}
    tally = batch.tally
    honest = {"succeeded": tally.get(Fate.ANSWERED, 0), "errored": tally.get(Fate.ERRORED, 0) + tally.get(Fate.ZERO, 0)}
    honest |= {"canceled": tally.get(Fate.CANCELED, 0), "expired": tally.get(Fate.EXPIRED, 0)}
    lie = batch.plan.get("counts")
    if lie is not None:
        honest |= {"succeeded": lie.get("completed", 0), "errored": lie.get("failed", 0)}
    return {"processing": 0, **honest}
