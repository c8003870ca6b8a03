"""Single calls and files at OpenAI."""

from __future__ import annotations

from typing import Any, Final

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.emulator.desk import files_of, find_file, json_body, known_model, page, project_of, refusing, whole
from penstock.emulator.files import File, Stored
from penstock.emulator.openai.asking import CHAT, RESPONSES, question_of
from penstock.emulator.openai.bodies import answer_body
from penstock.emulator.replies import Refused
from penstock.emulator.world import World

PURPOSES: Final = ("batch", "assistants", "fine-tune", "vision", "user_data", "evals")
MONTH: Final = 30 * 86_400


def allowed(world: World, request: Request) -> str:
    """The project of the key, refused with 401 when there is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    project = project_of(world, key if scheme.lower() == "bearer" else "")
    if project is None:
        code = "invalid_api_key" if key else None
        raise Refused(401, code, "Incorrect API key provided." if key else "You didn't provide an API key.")
    return project


class Calls:
    """Responses, chat completions, models and files."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[Route]:
        """Where they answer."""
        table = (
            ("/v1/responses", "POST", self.respond),
            ("/v1/chat/completions", "POST", self.chat),
            ("/v1/models/{model}", "GET", self.model),
            ("/v1/files", "POST", self.create_file),
            ("/v1/files", "GET", self.list_files),
            ("/v1/files/{id}", "GET", self.file),
            ("/v1/files/{id}", "DELETE", self.delete_file),
            ("/v1/files/{id}/content", "GET", self.content),
        )
        return [Route(path, refusing("openai", handler), methods=[method]) for path, method, handler in table]

    async def respond(self, request: Request) -> Response:
        """One response."""
        return await self._answer(request, RESPONSES)

    async def chat(self, request: Request) -> Response:
        """One chat completion."""
        return await self._answer(request, CHAT)

    async def _answer(self, request: Request, endpoint: str) -> Response:
        allowed(self._world, request)
        question = question_of(self._world, endpoint, await json_body(request))
        text, rule = self._world.answer(question)
        made = answer_body(endpoint, self._world.new_id(""), self._world.clock.now(), question, text, rule)
        return JSONResponse(made, headers={"x-request-id": self._world.new_id("req_")})

    async def model(self, request: Request) -> Response:
        """A model that exists, or 404."""
        allowed(self._world, request)
        name = known_model(self._world, request.path_params["model"])
        return JSONResponse({"id": name, "object": "model", "created": 0, "owned_by": "emulator"})

    async def create_file(self, request: Request) -> Response:
        """Take an upload, into memory and nowhere else."""
        project = allowed(self._world, request)
        name, purpose, data = await self._upload(request)
        if purpose not in PURPOSES:
            raise Refused(400, "invalid_value", f"'{purpose}' is not one of {list(PURPOSES)}.", "purpose")
        if purpose == "batch" and not name.endswith(".jsonl"):
            raise Refused(400, None, "Invalid file format for Batch API. Must be .jsonl", "file")
        if purpose == "batch" and len(data) > self._world.settings.max_file_bytes:
            raise Refused(413, "file_too_large", "The file is larger than the Batch API takes.", "file")
        made = File(
            self._world.new_id("file-"), "openai", project, name, purpose, self._world.clock.now(), Stored(data)
        )
        self._world.files[made.id] = made
        return JSONResponse(shown(made))

    @staticmethod
    async def _upload(request: Request) -> tuple[str, str, bytes]:
        parser = MultiPartParser(request.headers, request.stream())
        parser.spool_max_size = 0  # never onto the disk, whatever its size
        try:
            form = await parser.parse()
        except (MultiPartException, KeyError):
            raise Refused(400, None, "The body is not multipart/form-data with a file.") from None
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise Refused(400, "missing_required_parameter", "Missing required parameter: 'file'.", "file")
        try:
            return file.filename or "", str(form.get("purpose", "")), await file.read()
        finally:
            await form.close()

    async def list_files(self, request: Request) -> Response:
        """Files, newest first unless asked otherwise."""
        every = files_of(self._world, "openai", allowed(self._world, request))
        purpose, order = request.query_params.get("purpose"), request.query_params.get("order", "desc")
        wanted = [file for file in every if purpose in {None, file.purpose}]
        limit = whole(request, "limit", 10_000, 10_000)
        ordered = wanted if order == "desc" else wanted[::-1]
        found, more = page(ordered, lambda file: file.id, request.query_params.get("after"), limit)
        return JSONResponse(listed([shown(file) for file in found], more=more))

    def _file(self, request: Request) -> File:
        project = allowed(self._world, request)
        return find_file(self._world, "openai", project, request.path_params["id"])

    async def file(self, request: Request) -> Response:
        """One file's facts."""
        return JSONResponse(shown(self._file(request)))

    async def delete_file(self, request: Request) -> Response:
        """Forget a file; batches made of it go on."""
        file = self._file(request)
        del self._world.files[file.id]
        return JSONResponse({"id": file.id, "object": "file", "deleted": True})

    async def content(self, request: Request) -> Response:
        """A file's bytes, as they are made."""
        file = self._file(request)
        headers = {"content-length": str(file.size), "content-disposition": f'attachment; filename="{file.name}"'}
        return StreamingResponse(file.content.chunks(), headers=headers, media_type="application/octet-stream")


def shown(file: File) -> dict[str, Any]:
    """A file as the service lists it."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": int(file.created_at),
        "expires_at": int(file.created_at) + MONTH,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def listed(data: list[dict[str, Any]], *, more: bool) -> dict[str, Any]:
    """A page of a list."""
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
    return {"object": "list", "data": data, "has_more": more, **ends}
