"""Batches at OpenAI: create, poll, list, cancel, and the two files at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.emulator.batches import DAY, EXECUTED, VALIDATED, Batch, Stage
from penstock.emulator.desk import json_body, page, refusing, whole
from penstock.emulator.files import File, Stored, Written
from penstock.emulator.openai.asking import ENDPOINTS
from penstock.emulator.openai.calls import allowed, listed
from penstock.emulator.openai.lines import Lines
from penstock.emulator.openai.validation import Check
from penstock.emulator.questions import compact
from penstock.emulator.replies import Refused
from penstock.emulator.results import Fate, Outcome, count, examined, lines, outcomes
from penstock.emulator.world import World, occasion_of

MOST_PAIRS: Final = 16
KEY_LENGTH: Final = 64
VALUE_LENGTH: Final = 512


class Batches:
    """The batch half of the service."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lines = Lines(world)
        world.publish["openai"] = self._publish

    def routes(self) -> list[Route]:
        """Where they answer."""
        table = (
            ("/v1/batches", "POST", self.create),
            ("/v1/batches", "GET", self.list_all),
            ("/v1/batches/{id}", "GET", self.retrieve),
            ("/v1/batches/{id}/cancel", "POST", self.cancel),
        )
        return [Route(path, refusing("openai", handler), methods=[method]) for path, method, handler in table]

    async def create(self, request: Request) -> Response:
        """Take a batch; whether its lines are any good shows later."""
        project = allowed(self._world, request)
        body = await json_body(request)
        _check_create(body)
        check = Check(self._world, body["endpoint"])
        self._read_input(check, project, body["input_file_id"])
        metadata = body.get("metadata")
        batch = Batch(
            self._world.new_id("batch_"),
            "openai",
            project,
            self._world.clock.now(),
            check.items,
            self._world.settings.finish_after,
            self._world.settings.cancel_after,
            DAY,
            endpoint=body["endpoint"],
            model=check.model,
            label=compact(metadata) if metadata else "",
            metadata=metadata,
            input_file_id=body["input_file_id"],
            errors=check.errors,
        )
        batch.plan = self._world.plan(occasion_of(batch, request.method, request.url.path))
        self._world.batches[batch.id] = batch
        return JSONResponse(self._shown(batch, Stage.VALIDATING))

    def _read_input(self, check: Check, project: str, file_id: str) -> None:
        file = self._world.files.get(file_id)
        if file is None or file.project != project or not isinstance(file.content, Stored):
            message = f"The input file {file_id} does not exist."
            check.errors.append({"code": "file_not_found", "line": None, "message": message, "param": "input_file_id"})
        else:
            check.read(file.content.data)

    async def retrieve(self, request: Request) -> Response:
        """One batch as it stands."""
        batch = self._batch(request)
        return JSONResponse(self._shown(batch, batch.stage(self._world.clock.now())))

    async def list_all(self, request: Request) -> Response:
        """Batches, newest first."""
        project = allowed(self._world, request)
        self._world.settle()
        limit = whole(request, "limit", 20, 100)
        every = self._world.visible("openai", project)
        found, more = page(every, lambda batch: batch.id, request.query_params.get("after"), limit)
        now = self._world.clock.now()
        return JSONResponse(listed([self._shown(batch, batch.stage(now)) for batch in found], more=more))

    async def cancel(self, request: Request) -> Response:
        """Stop a batch that is under way."""
        batch = self._batch(request)
        if batch.end is not None:
            raise Refused(409, None, f"Cannot cancel a batch with status '{batch.end}'.")
        batch.cancel(self._world.clock.now())
        return JSONResponse(self._shown(batch, Stage.CANCELLING))

    def _batch(self, request: Request) -> Batch:
        project = allowed(self._world, request)
        batch_id = request.path_params["id"]
        batch = self._world.polled("openai", project, batch_id)
        if batch is None:
            raise Refused(404, None, f"No batch found with id '{batch_id}'.")
        return batch

    def _publish(self, batch: Batch) -> None:
        """Write the two files of an ended batch; without a line there is no file."""
        every = examined(batch, outcomes(batch), self._lines.question)
        count(batch, every)
        if "no_output" in batch.plan:
            return
        good = [one for one in every if one.fate == Fate.ANSWERED]
        bad = [one for one in every if one.fate != Fate.ANSWERED]
        batch.output_file_id = self._written(batch, "output", good)
        batch.error_file_id = self._written(batch, "error", bad)

    def _written(self, batch: Batch, kind: str, shown: list[Outcome]) -> str | None:
        if not shown:
            return None
        content = Written(lambda: lines(batch, shown, self._lines.render))
        name = f"{batch.id}_{kind}.jsonl"
        now = self._world.clock.now()
        made = File(self._world.new_id("file-"), "openai", batch.project, name, "batch_output", now, content)
        self._world.files[made.id] = made
        return made.id

    def _shown(self, batch: Batch, stage: Stage) -> dict[str, Any]:
        plan = batch.plan
        word = plan["state"].get("word") if "state" in plan and batch.end else str(stage)
        ended = {f"{end}_at": int(batch.ended_at) if batch.ended_at and batch.end == end else None for end in _ENDS}
        began = stage not in {Stage.VALIDATING, Stage.FAILED}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "model": batch.model or None,
            "errors": _errors(batch) if stage == Stage.FAILED else None,
            "input_file_id": batch.input_file_id,
            "completion_window": "24h",
            "status": word,
            "output_file_id": "" if "empty_output_file_id" in plan else batch.output_file_id,
            "error_file_id": "" if "empty_error_file_id" in plan else batch.error_file_id,
            "created_at": int(batch.created_at),
            "in_progress_at": batch.began(VALIDATED) if began else None,
            "expires_at": int(batch.created_at + batch.window),
            "finalizing_at": batch.began(EXECUTED) if stage in {Stage.FINALIZING, Stage.COMPLETED} else None,
            "cancelling_at": int(batch.cancelled_at) if batch.cancelled_at else None,
            **ended,
            "request_counts": self._counts(batch, stage),
            "metadata": batch.metadata,
        }

    def _counts(self, batch: Batch, stage: Stage) -> dict[str, int]:
        if stage in {Stage.VALIDATING, Stage.FAILED}:
            return {"total": 0, "completed": 0, "failed": 0}
        failed = batch.tally.get(Fate.ERRORED, 0)  # status 0 and unlisted items are counted as if all were well
        done = batch.progress(self._world.clock.now())
        honest = {"total": len(batch.items), "completed": max(done - failed, 0), "failed": failed}
        lie = batch.plan.get("counts")
        return honest if lie is None or batch.end is None else honest | {k: int(v) for k, v in lie.settings.items()}


_ENDS: Final = (Stage.COMPLETED, Stage.FAILED, Stage.EXPIRED, Stage.CANCELLED)


def _errors(batch: Batch) -> dict[str, Any]:
    """Why the whole batch was refused."""
    data = list(batch.errors)
    if "token_limit" in batch.plan:
        said = batch.plan["token_limit"].get("message", "Enqueued token limit reached for this model.")
        data = [{"code": "token_limit_exceeded", "line": None, "message": said, "param": None}]
    elif "fail" in batch.plan:
        rule = batch.plan["fail"]
        names = {"code": "invalid_request", "line": 1, "message": "This line is invalid.", "param": None}
        data = [{name: rule.get(name, usual) for name, usual in names.items()}]
    return {"object": "list", "data": data}


def _check_create(body: Mapping[str, Any]) -> None:
    for name in ("input_file_id", "endpoint", "completion_window"):
        if not isinstance(body.get(name), str) or not body[name]:
            raise Refused(400, "missing_required_parameter", f"Missing required parameter: '{name}'.", name)
    if body["endpoint"] not in ENDPOINTS:
        raise Refused(400, "invalid_value", f"Invalid value: '{body['endpoint']}'.", "endpoint")
    if body["completion_window"] != "24h":
        raise Refused(
            400, "invalid_value", "Invalid value for 'completion_window': only '24h' is supported.", "completion_window"
        )
    _check_metadata(body.get("metadata") or {})


def _check_metadata(metadata: Any) -> None:
    if not isinstance(metadata, dict) or len(metadata) > MOST_PAIRS:
        raise Refused(400, "invalid_value", f"'metadata' takes at most {MOST_PAIRS} pairs.", "metadata")
    for key, value in metadata.items():
        if len(key) > KEY_LENGTH or not isinstance(value, str) or len(value) > VALUE_LENGTH:
            message = f"'metadata' keys take {KEY_LENGTH} characters, values are strings of at most {VALUE_LENGTH}."
            raise Refused(400, "invalid_value", message, "metadata")
