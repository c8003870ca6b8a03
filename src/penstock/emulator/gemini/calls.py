"""Single calls and files at Gemini; uploads are resumable, the way the SDK does them."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.emulator.clock import iso
from penstock.emulator.desk import files_of, json_body, known_model, page, refusing, whole
from penstock.emulator.files import File, Stored
from penstock.emulator.gemini.asking import allowed, answer_body, either, question_of
from penstock.emulator.replies import Refused
from penstock.emulator.world import World

TWO_DAYS: Final = 2 * 86_400


@dataclass
class Upload:
    """An upload under way."""

    project: str
    facts: dict[str, Any]
    mime_type: str
    data: bytearray = field(default_factory=bytearray)


class Calls:
    """generateContent, models and files."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._uploads: dict[str, Upload] = {}

    def routes(self) -> list[Route]:
        """Where they answer."""
        table = (
            ("/{version}/models/{model}:generateContent", "POST", self.generate),
            ("/{version}/models/{model}", "GET", self.model),
            ("/upload/{version}/files", "POST", self.begin_upload),
            ("/upload/{version}/files/{upload}", "POST", self.upload),
            ("/{version}/files", "GET", self.list_files),
            ("/{version}/files/{name}:download", "GET", self.download),
            ("/{version}/files/{name}", "GET", self.file),
            ("/{version}/files/{name}", "DELETE", self.delete_file),
        )
        return [Route(path, refusing("gemini", handler), methods=[method]) for path, method, handler in table]

    async def generate(self, request: Request) -> Response:
        """One answer."""
        allowed(self._world, request)
        question = question_of(self._world, request.path_params["model"], await json_body(request))
        text, rule = self._world.answer(question)
        return JSONResponse(answer_body(self._world.new_id(""), question, text, rule))

    async def model(self, request: Request) -> Response:
        """A model that exists, or 404."""
        allowed(self._world, request)
        name = known_model(self._world, request.path_params["model"])
        return JSONResponse({"name": f"models/{name}", "displayName": name, "version": "001"})

    async def begin_upload(self, request: Request) -> Response:
        """Give out the URL that the bytes go to."""
        project = allowed(self._world, request)
        if request.headers.get("x-goog-upload-command") != "start":
            raise Refused(400, None, "An upload begins with X-Goog-Upload-Command: start.")
        facts = dict(json.loads(await request.body() or b"{}").get("file") or {})
        mime_type = request.headers.get("x-goog-upload-header-content-type", "")
        upload_id = self._world.new_id("")
        self._uploads[upload_id] = Upload(project, facts, mime_type)
        url = f"{str(request.url).partition('?')[0]}/{upload_id}"
        return Response(headers={"x-goog-upload-url": url, "x-goog-upload-status": "active"})

    async def upload(self, request: Request) -> Response:
        """Take the next bytes; the last ones make the file."""
        upload = self._uploads.get(request.path_params["upload"])
        if upload is None:
            raise Refused(404, None, "There is no such upload.")
        if int(request.headers.get("x-goog-upload-offset", "0")) != len(upload.data):
            raise Refused(400, None, f"The upload continues at {len(upload.data)}.")
        async for chunk in request.stream():
            upload.data += chunk
        if "finalize" not in request.headers.get("x-goog-upload-command", ""):
            return Response(headers={"x-goog-upload-status": "active"})
        del self._uploads[request.path_params["upload"]]
        made = self._stored(upload)
        return JSONResponse({"file": shown(self._world, made)}, headers={"x-goog-upload-status": "final"})

    def _stored(self, upload: Upload) -> File:
        name = str(upload.facts.get("name") or self._world.new_id("files/"))
        made = File(
            name,
            "gemini",
            upload.project,
            str(either(upload.facts, "displayName") or ""),
            "UPLOADED",
            self._world.clock.now(),
            Stored(bytes(upload.data)),
            upload.mime_type,
        )
        self._world.files[name] = made
        return made

    async def list_files(self, request: Request) -> Response:
        """Files, newest first."""
        every = files_of(self._world, "gemini", allowed(self._world, request))
        size = whole(request, "pageSize", 10, 100)
        found, more = page(every, lambda file: file.id, request.query_params.get("pageToken"), size)
        token = {"nextPageToken": found[-1].id} if more else {}
        return JSONResponse({"files": [shown(self._world, file) for file in found], **token})

    def _file(self, request: Request) -> File:
        project = allowed(self._world, request)
        self._world.settle()
        file = self._world.files.get(f"files/{request.path_params['name']}")
        if file is None or file.project != project:
            message = (
                f"You do not have permission to access the File {request.path_params['name']} or it may not exist."
            )
            raise Refused(403, None, message)
        return file

    async def file(self, request: Request) -> Response:
        """One file's facts."""
        return JSONResponse(shown(self._world, self._file(request)))

    async def delete_file(self, request: Request) -> Response:
        """Forget a file; batches made of it go on."""
        del self._world.files[self._file(request).id]
        return JSONResponse({})

    async def download(self, request: Request) -> Response:
        """The bytes of a generated file; those of an upload are not given back."""
        file = self._file(request)
        if file.purpose != "GENERATED":
            raise Refused(400, None, "Only generated files can be downloaded.")
        headers = {"content-length": str(file.size)}
        return StreamingResponse(file.content.chunks(), headers=headers, media_type=file.mime_type)


def active(world: World, file: File) -> bool:
    """Whether an upload may be used yet."""
    return world.clock.now() >= file.created_at + world.settings.file_active_after


def shown(world: World, file: File) -> dict[str, Any]:
    """A file as the service lists it."""
    uri = f"https://generativelanguage.googleapis.com/v1/{file.id}"
    facts: dict[str, Any] = {
        "name": file.id,
        "mimeType": file.mime_type,
        "sizeBytes": str(file.size),
        "createTime": iso(file.created_at),
        "updateTime": iso(file.created_at),
        "expirationTime": iso(file.created_at + TWO_DAYS),
        "uri": uri,
        "state": "ACTIVE" if active(world, file) else "PROCESSING",
        "source": file.purpose,
    }
    if file.name:
        facts["displayName"] = file.name
    if isinstance(file.content, Stored):
        facts["sha256Hash"] = b64encode(sha256(file.content.data).digest()).decode()
    else:
        facts["downloadUri"] = f"{uri}:download?alt=media"
    return facts
