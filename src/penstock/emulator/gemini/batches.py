"""Batches at Gemini: from a file, found again only by their display name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.emulator.batches import DAY, Batch, Item, Stage
from penstock.emulator.clock import iso
from penstock.emulator.desk import json_body, known_model, page, refusing, whole
from penstock.emulator.files import File, Stored, Written, nonblank_lines
from penstock.emulator.gemini.asking import allowed, either
from penstock.emulator.gemini.calls import active
from penstock.emulator.gemini.lines import Lines
from penstock.emulator.replies import Refused
from penstock.emulator.results import Fate, count, examined, lines, outcomes
from penstock.emulator.world import World, occasion_of

KIND: Final = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
STATES: Final[Mapping[Stage, str]] = {
    Stage.VALIDATING: "BATCH_STATE_PENDING",
    Stage.IN_PROGRESS: "BATCH_STATE_RUNNING",
    Stage.FINALIZING: "BATCH_STATE_RUNNING",
    Stage.CANCELLING: "BATCH_STATE_RUNNING",
    Stage.COMPLETED: "BATCH_STATE_SUCCEEDED",
    Stage.FAILED: "BATCH_STATE_FAILED",
    Stage.EXPIRED: "BATCH_STATE_EXPIRED",
    Stage.CANCELLED: "BATCH_STATE_CANCELLED",
}


class Batches:
    """The batch half of the service."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lines = Lines(world)
        world.publish["gemini"] = self._publish

    def routes(self) -> list[Route]:
        """Where they answer."""
        table = (
            ("/{version}/models/{model}:batchGenerateContent", "POST", self.create),
            ("/{version}/batches", "GET", self.list_all),
            ("/{version}/batches/{name}:cancel", "POST", self.cancel),
            ("/{version}/batches/{name}", "GET", self.retrieve),
            ("/{version}/batches/{name}", "DELETE", self.delete),
        )
        return [Route(path, refusing("gemini", handler), methods=[method]) for path, method, handler in table]

    async def create(self, request: Request) -> Response:
        """Take a batch of a file that is ACTIVE; the file is read later."""
        project = allowed(self._world, request)
        model = known_model(self._world, request.path_params["model"])
        asked = (await json_body(request)).get("batch") or {}
        name = either(either(asked, "inputConfig") or {}, "fileName")
        if not isinstance(name, str) or not name:
            raise Refused(400, None, "The emulator takes batches from files: give input_config.file_name.")
        items, errors = self._read(project, name)
        batch = Batch(
            self._world.new_id("batches/"),
            "gemini",
            project,
            self._world.clock.now(),
            items,
            self._world.settings.finish_after,
            self._world.settings.cancel_after,
            2 * DAY,
            model=model,
            label=str(either(asked, "displayName") or ""),
            input_file_id=name,
            errors=errors,
        )
        batch.plan = self._world.plan(occasion_of(batch, request.method, request.url.path))
        self._world.batches[batch.id] = batch
        return JSONResponse(self._shown(batch, Stage.VALIDATING))

    def _read(self, project: str, name: str) -> tuple[list[Item], list[dict[str, Any]]]:
        file = self._world.files.get(name)
        if file is None or file.project != project or not isinstance(file.content, Stored):
            raise Refused(404, None, f"File {name} does not exist.")
        if not active(self._world, file):
            raise Refused(400, "FAILED_PRECONDITION", f"The File {name} is not in an ACTIVE state.")
        items: list[Item] = []
        errors: list[dict[str, Any]] = []
        for number, raw in enumerate(nonblank_lines(file.content.data), 1):
            key = _key(bytes(raw))
            if key is None:
                errors.append({"code": "invalid_json_line", "line": number, "message": "This line is no request."})
            else:
                items.append(Item(key, raw))
        return items, errors or ([] if items else [{"code": "empty_file", "message": "The file is empty."}])

    async def retrieve(self, request: Request) -> Response:
        """One batch as it stands."""
        batch = self._batch(request)
        return JSONResponse(self._shown(batch, batch.stage(self._world.clock.now())))

    async def list_all(self, request: Request) -> Response:
        """Batches, newest first; no filter is offered."""
        project = allowed(self._world, request)
        self._world.settle()
        size = whole(request, "pageSize", 50, 1000)
        every = self._world.visible("gemini", project)
        found, more = page(every, lambda batch: batch.id, request.query_params.get("pageToken"), size)
        now = self._world.clock.now()
        token = {"nextPageToken": found[-1].id} if more else {}
        return JSONResponse({"operations": [self._shown(batch, batch.stage(now)) for batch in found], **token})

    async def cancel(self, request: Request) -> Response:
        """Stop a batch that is under way."""
        batch = self._batch(request)
        if batch.end is not None:
            raise Refused(400, "FAILED_PRECONDITION", "The batch has ended already.")
        batch.cancel(self._world.clock.now())
        return JSONResponse({})

    async def delete(self, request: Request) -> Response:
        """Forget a batch; its result file stays."""
        del self._world.batches[self._batch(request).id]
        return JSONResponse({})

    def _batch(self, request: Request) -> Batch:
        project = allowed(self._world, request)
        batch = self._world.polled("gemini", project, f"batches/{request.path_params['name']}")
        if batch is None:
            raise Refused(404, None, "Requested entity was not found.")
        return batch

    def _publish(self, batch: Batch) -> None:
        """Write the result file. An expired batch has none at all, a cancelled one only what a fault left it."""
        every = examined(batch, outcomes(batch), self._lines.question)
        kept = batch.end == Stage.COMPLETED or (batch.end == Stage.CANCELLED and _keeps(batch))
        shown = every if kept and "no_output" not in batch.plan else []
        count(batch, every)
        if not shown:
            return
        content = Written(lambda: lines(batch, shown, self._lines.render))
        name = f"files/batch-{batch.id.removeprefix('batches/')}"
        made = File(
            name, "gemini", batch.project, "", "GENERATED", self._world.clock.now(), content, "application/jsonl"
        )
        self._world.files[name] = made
        batch.output_file_id = name

    def _shown(self, batch: Batch, stage: Stage) -> dict[str, Any]:
        word = STATES[stage]
        if stage == Stage.COMPLETED and "partially_succeeded" in batch.plan:
            word = "JOB_STATE_PARTIALLY_SUCCEEDED"
        if batch.end is not None and "state" in batch.plan:
            word = str(batch.plan["state"].get("word"))
        changed = batch.ended_at or self._world.clock.now()
        metadata = {
            "@type": KIND,
            "model": f"models/{batch.model}",
            "displayName": batch.label,
            "name": batch.id,
            "state": word,
            "createTime": iso(batch.created_at),
            "updateTime": iso(changed),
            **({"endTime": iso(batch.ended_at)} if batch.ended_at else {}),
            "inputConfig": {"fileName": batch.input_file_id},
            "batchStats": self._stats(batch),
            **({"output": {"responsesFile": batch.output_file_id}} if batch.output_file_id else {}),
        }
        return {"name": batch.id, "metadata": metadata, **_end(batch)}

    def _stats(self, batch: Batch) -> dict[str, str]:
        failed = batch.tally.get(Fate.ERRORED, 0) + batch.tally.get(Fate.ZERO, 0)
        done = batch.progress(self._world.clock.now())
        honest = {"total": len(batch.items), "completed": max(done - failed, 0), "failed": failed}
        lie = batch.plan.get("counts")
        if lie is not None and batch.end is not None:
            honest |= lie.settings
        return {
            "requestCount": str(honest["total"]),
            "pendingRequestCount": str(len(batch.items) - done),
            "successfulRequestCount": str(honest["completed"]),
            "failedRequestCount": str(honest["failed"]),
        }


def _keeps(batch: Batch) -> bool:
    return any(kind in batch.plan for kind in ("cancelled", "cancel_keeps"))


def _key(raw: bytes) -> str | None:
    """The key of a line; None when the line is no request."""
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(line, dict) or not isinstance(line.get("request"), dict):
        return None
    return str(line.get("key", ""))


def _end(batch: Batch) -> dict[str, Any]:
    """What an operation says once it is done."""
    if batch.end is None:
        return {}
    if batch.end == Stage.COMPLETED:
        return {"done": True, "response": {"@type": f"{KIND}Output", "responsesFile": batch.output_file_id}}
    code = {Stage.FAILED: 3, Stage.EXPIRED: 4, Stage.CANCELLED: 1}[batch.end]
    message = "The batch was refused." if batch.end == Stage.FAILED else f"The batch was {batch.end}."
    if batch.errors:
        message = f"{message} {batch.errors[0]['message']}"
    return {"done": True, "error": {"code": code, "message": message}}
