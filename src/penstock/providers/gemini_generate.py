"""The adapter `gemini_generate`: Gemini's generateContent, one call at a time or in batches.

Batches go by file: results that travel inside the batch cannot always be had.
The only thing to look a batch up by is its display name, which is the token.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from google.genai import types
from google.genai.errors import APIError

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.providers import gemini_answers, gemini_states, lines
from penstock.providers.answers import body_of, fit, newest, paid, word
from penstock.providers.failing import Unreadable, acts, asks
from penstock.providers.lenience import unless_gone, unless_over
from penstock.providers.port import BatchLimits, BatchState, Created, ItemResult, Lookup, Submission, Uploaded
from penstock.providers.wire import CONTROL_SECONDS, TRANSFER_SECONDS, safe_id

if TYPE_CHECKING:
    import io
    from collections.abc import AsyncIterator, Iterator
    from datetime import datetime
    from uuid import UUID

    from google.genai import Client

    from penstock.contract.calls import Answer, Request

_FORBIDDEN: Final = 403
_MOST_LISTED: Final = 100_000
_LOOKS: Final = 120  # at a file that is not ready yet


class GeminiGenerate:
    """generateContent. *pause*: seconds between two looks at a file that is not ready yet."""

    kind: str = "gemini_generate"
    provider: str = "gemini"
    supports_micro_batch: bool = False
    # The provider takes 2 GB; what is collected has to fit in memory.
    limits: BatchLimits = BatchLimits(items=50_000, body_bytes=200_000_000, window=gemini_states.WINDOW)
    lookup: Lookup = Lookup.BY_TOKEN

    def __init__(self, client: Client, *, pause: float = 1.0) -> None:
        self._client = client  # a forgotten client closes itself
        self._pause = pause

    async def close(self) -> None:
        """Give the connections back; the SDK leaves a client that it was given to us."""
        self._client.close()
        await self._client.aio.aclose()
        http = self._client._api_client._async_httpx_client  # noqa: SLF001 - we gave it, and have to close it
        if http is not None:
            await http.aclose()

    @asks
    async def call(self, request: Request, *, seconds: float) -> Answer:
        """Ask once; what comes back fits the schema that was asked for."""
        asked = gemini_answers.body_for(request)
        config = types.GenerateContentConfig(
            max_output_tokens=request.max_output_tokens,
            system_instruction=request.instructions or None,
            response_mime_type=asked["generationConfig"].get("responseMimeType"),
            response_json_schema=asked["generationConfig"].get("responseJsonSchema"),
            should_return_http_response=True,
            automatic_continuation=False,  # one call per job
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            http_options=_within(seconds),
        )
        async with asyncio.timeout(seconds):
            with _reading():
                response = await self._client.aio.models.generate_content(
                    model=_model(request.route.model), contents=asked["contents"], config=config
                )
        raw = response.sdk_http_response
        body = body_of(raw.body or "") if raw is not None else {}
        with paid(gemini_answers.usage(body)):
            return fit(gemini_answers.answer_of(body), request.schema)

    def line(self, custom_id: str, request: Request) -> bytes:
        """One request of one user."""
        return lines.encode({"key": custom_id, "request": gemini_answers.body_for(request)})

    @acts
    async def upload(self, submission: Submission) -> Uploaded:
        """Send the lines as a file named after the token, and wait until it can be used."""
        config = types.UploadFileConfig(
            display_name=submission.token, mime_type="application/jsonl", http_options=_within(TRANSFER_SECONDS)
        )
        async with asyncio.timeout(TRANSFER_SECONDS):
            with _reading():
                content = cast("io.IOBase", lines.LineFile(submission.lines))
                file = await self._client.aio.files.upload(file=content, config=config)
        return Uploaded(await self._ready(file))

    @acts
    async def create(self, submission: Submission, uploaded: Uploaded) -> Created:
        """Create it with the token as its display name."""
        config = types.CreateBatchJobConfig(display_name=submission.token, http_options=_within(CONTROL_SECONDS))
        async with asyncio.timeout(CONTROL_SECONDS):
            with _reading():
                job = await self._client.aio.batches.create(
                    model=_model(submission.model), src=uploaded.file_id or "", config=config
                )
        return gemini_states.created(job, uploaded.file_id)

    @asks
    async def find(self, submission_id: UUID, since: datetime, until: datetime) -> list[Created]:  # noqa: ARG002 - its name tells, and no order is promised
        """Every batch of this display name, from the whole list: in which order it comes is not documented."""
        found = []
        with _reading():
            listed = 0
            config = types.ListBatchJobsConfig(page_size=100, http_options=_within(CONTROL_SECONDS))
            async for job in await self._client.aio.batches.list(config=config):
                listed += 1
                if listed > _MOST_LISTED:
                    raise Unreadable
                if job.display_name == submission_id.hex:
                    found.append(gemini_states.created(job, None))
        return sorted(found, key=newest, reverse=True)

    @asks
    async def poll(self, provider_batch_id: str) -> BatchState:
        """Where it stands."""
        config = types.GetBatchJobConfig(http_options=_within(CONTROL_SECONDS))
        async with asyncio.timeout(CONTROL_SECONDS):
            with _reading():
                job = await self._client.aio.batches.get(name=safe_id(provider_batch_id), config=config)
        return gemini_states.state(job)

    async def results(self, state: BatchState) -> AsyncIterator[ItemResult]:
        """Every line, once all of them are here; an expired batch has none at all."""
        if state.output_file_id:
            async for line in lines.objects(await self._file(safe_id(state.output_file_id))):
                yield gemini_answers.item(line)

    async def cancel(self, provider_batch_id: str) -> None:
        """Ask it to stop; one that has ended, or is stopping, is left alone."""
        stop = self._cancel(provider_batch_id)
        await unless_over(stop, lambda: self.poll(provider_batch_id), "JOB_STATE_CANCELLING")

    async def discard(self, state: BatchState) -> None:
        """Delete its files; the provider does so by itself after two days."""
        for file_id in (state.input_file_id, state.output_file_id):
            if file_id:
                await unless_gone(self._delete(file_id))

    async def discard_input(self, submission_id: UUID, since: datetime) -> None:  # noqa: ARG002 - no order is promised
        """Delete the files of this display name."""
        for file_id in await self._inputs(submission_id.hex):
            await unless_gone(self._delete(file_id))

    @asks
    async def _inputs(self, token: str) -> list[str]:
        found, listed = [], 0
        with _reading():
            config = types.ListFilesConfig(page_size=100, http_options=_within(CONTROL_SECONDS))
            async for file in await self._client.aio.files.list(config=config):
                listed += 1
                if listed > _MOST_LISTED:
                    raise Unreadable
                if file.display_name == token and word(file.name):
                    found.append(word(file.name))
        return found

    @asks
    async def _cancel(self, provider_batch_id: str) -> None:
        config = types.CancelBatchJobConfig(http_options=_within(CONTROL_SECONDS))
        with _reading():
            await self._client.aio.batches.cancel(name=safe_id(provider_batch_id), config=config)

    @asks
    async def _delete(self, file_id: str) -> None:
        config = types.DeleteFileConfig(http_options=_within(CONTROL_SECONDS))
        with _reading(), _of_a_file():
            await self._client.aio.files.delete(name=safe_id(file_id), config=config)

    async def _ready(self, file: types.File) -> str:
        """The file's name once it is ACTIVE; a batch on one that is not would be refused."""
        for _ in range(_LOOKS):
            name, state = word(file.name), str(getattr(file.state, "value", file.state))
            if not name or state == "FAILED":
                raise Unreadable
            if state in ("ACTIVE", "None"):
                return name
            await asyncio.sleep(self._pause)
            with _reading():
                file = await self._client.aio.files.get(name=name)
        raise TimeoutError

    @asks
    async def _file(self, name: str) -> bytearray:
        content = _Sink()
        config = types.DownloadFileConfig(http_options=_within(TRANSFER_SECONDS))
        async with asyncio.timeout(TRANSFER_SECONDS):
            with _reading(), _of_a_file():
                await self._client.aio.files.download(file=name, destination=cast("io.IOBase", content), config=config)
        return await lines.proven(content.bytes, await self._size(name))

    async def _size(self, name: str) -> int | None:
        """How long the file is, where the provider tells: not every result file can be asked about."""
        try:
            return await self._told_size(name)
        except Failed as failed:
            if failed.error_class in (FailureClass.NOT_FOUND, FailureClass.SCHEMA_INVALID):
                return None
            raise

    @asks
    async def _told_size(self, name: str) -> int | None:
        with _reading(), _of_a_file():
            return (await self._client.aio.files.get(name=name)).size_bytes


class _Sink:
    """Where a download goes: memory, never a disk (A-83)."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def write(self, chunk: bytes) -> int:
        self.bytes += chunk
        return len(chunk)


@contextmanager
def _reading() -> Iterator[None]:
    """What the SDK cannot parse is no answer: its own errors about that are those of any Python code."""
    broken = False
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, Warning):
        broken = True
    if broken:
        raise Unreadable


@contextmanager
def _of_a_file() -> Iterator[None]:
    """Gemini answers 403 for a file that is gone, as it does for one of somebody else's; a bad key is a 400."""
    gone = False
    try:
        yield
    except APIError as error:
        gone = error.code == _FORBIDDEN
        if not gone:
            raise
    if gone:
        raise Failed(FailureClass.NOT_FOUND)


def _within(seconds: float) -> types.HttpOptions:
    return types.HttpOptions(timeout=max(1, round(seconds * 1000)))


def _model(name: str) -> str:
    """*name* for use in a path."""
    if ".." in name or ":" in name:
        raise Failed(FailureClass.CONFIG_INVALID)
    return name
