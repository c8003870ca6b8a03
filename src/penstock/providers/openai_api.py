"""Files and batches of OpenAI, the same for every endpoint that a batch may go to.

Nothing here is idempotent at the provider. The file is named after the token
and the batch carries it as metadata, so an unknown outcome can be looked up.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Any, Final, cast

from penstock.providers import lines, openai_states
from penstock.providers.answers import body_of, fit, item_of, items, mapping, moment, newest, paid, word
from penstock.providers.failing import Unreadable, acts, asks, failure_of, unanswered
from penstock.providers.lenience import unless_gone, unless_over
from penstock.providers.port import BatchLimits, BatchState, Created, ItemResult, Lookup, Submission, Uploaded
from penstock.providers.wire import TRANSFER_SECONDS, Wire, safe_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from uuid import UUID

    from openai import AsyncOpenAI

    from penstock.contract.calls import Answer, Request, Usage

LIMITS: Final = BatchLimits(items=50_000, body_bytes=200_000_000, window=timedelta(hours=24))
SKEW: Final = timedelta(minutes=10)  # between the database's clock and the provider's
_PAGE: Final = 100
_PAGES: Final = 1000
_OK: Final = range(200, 300)


class OpenAIAdapter:
    """All of an adapter but what its endpoint's requests and answers look like."""

    provider: str = "openai"
    supports_micro_batch: bool = False
    limits: BatchLimits = LIMITS
    lookup: Lookup = Lookup.BY_TOKEN
    endpoint: str

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client
        self._wire = Wire(client)

    def body(self, request: Request) -> dict[str, Any]:
        """What is asked of the endpoint."""
        raise NotImplementedError

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """What the endpoint said; raises where that is no answer."""
        raise NotImplementedError

    def usage(self, body: Mapping[str, Any]) -> Usage:
        """What it has used, whatever it said."""
        raise NotImplementedError

    @asks
    async def call(self, request: Request, *, seconds: float) -> Answer:
        """Ask once; what comes back fits the schema that was asked for."""
        body = await self._wire.post(self.endpoint, self.body(request), seconds=seconds)
        with paid(self.usage(body)):
            return fit(self.answer(body), request.schema)

    async def close(self) -> None:
        """Give the connections back."""
        await self._wire.close()

    def line(self, custom_id: str, request: Request) -> bytes:
        """One request of one user."""
        return lines.encode(
            {"custom_id": custom_id, "method": "POST", "url": f"/v1{self.endpoint}", "body": self.body(request)}
        )

    @acts
    async def upload(self, submission: Submission) -> Uploaded:
        """Send the lines as `<token>.jsonl`."""
        file = (f"{submission.token}.jsonl", cast("IO[bytes]", lines.LineFile(submission.lines)), "application/jsonl")
        async with asyncio.timeout(TRANSFER_SECONDS):
            answer = await self._client.files.with_raw_response.create(
                file=file, purpose="batch", timeout=TRANSFER_SECONDS
            )
        file_id = word(body_of(answer.http_response.content).get("id"))
        if not file_id:
            raise Unreadable
        return Uploaded(file_id)

    @acts
    async def create(self, submission: Submission, uploaded: Uploaded) -> Created:
        """Create it, with the token as metadata."""
        asked = {
            "input_file_id": uploaded.file_id,
            "endpoint": f"/v1{self.endpoint}",
            "completion_window": "24h",
            "metadata": {"submission_id": submission.token},
        }
        return openai_states.created(await self._wire.post("/batches", asked))

    @asks
    async def find(self, submission_id: UUID, since: datetime, until: datetime) -> list[Created]:  # noqa: ARG002 - its token tells
        """Page the list, newest first, back to *since*; match the metadata, else the name of the input file."""
        token, horizon = submission_id.hex, since - SKEW
        recent = [batch async for batch in self._pages("/batches", horizon)]
        bare = [batch for batch in recent if not openai_states.token(batch)]
        files = await self._files_named(f"{token}.jsonl", horizon) if bare else set()
        found = [batch for batch in recent if openai_states.token(batch) == token]
        found += [batch for batch in bare if batch.get("input_file_id") in files]
        created = [openai_states.created(batch) for batch in found]
        return sorted(created, key=newest, reverse=True)

    @asks
    async def poll(self, provider_batch_id: str) -> BatchState:
        """Where it stands."""
        return openai_states.state(await self._wire.get(f"/batches/{safe_id(provider_batch_id)}"))

    async def results(self, state: BatchState) -> AsyncIterator[ItemResult]:
        """Every line of both files; both are whole before the first is given out."""
        for file in await self._files(state):
            async for line in lines.objects(file):
                yield self._item(line)

    async def cancel(self, provider_batch_id: str) -> None:
        """Ask it to stop; one that has ended, or is stopping, is left alone."""
        await unless_over(self._cancel(provider_batch_id), lambda: self.poll(provider_batch_id), "cancelling")

    async def discard(self, state: BatchState) -> None:
        """Delete its files."""
        for file_id in (state.input_file_id, state.output_file_id, state.error_file_id):
            if file_id:
                await unless_gone(self._delete(file_id))

    async def discard_input(self, submission_id: UUID, since: datetime) -> None:
        """Delete `<token>.jsonl`."""
        for file_id in await self._inputs(submission_id, since):
            await unless_gone(self._delete(file_id))

    @asks
    async def _inputs(self, submission_id: UUID, since: datetime) -> set[str]:
        return await self._files_named(f"{submission_id.hex}.jsonl", since - SKEW)

    @asks
    async def _cancel(self, provider_batch_id: str) -> None:
        await self._wire.post(f"/batches/{safe_id(provider_batch_id)}/cancel")

    @asks
    async def _delete(self, file_id: str) -> None:
        await self._wire.delete(f"/files/{safe_id(file_id)}")

    @asks
    async def _files(self, state: BatchState) -> list[bytearray]:
        return [await self._file(file_id) for file_id in (state.output_file_id, state.error_file_id) if file_id]

    async def _file(self, file_id: str) -> bytearray:
        """A file whose length is what the file object says it is, and whose lines all parse."""
        path = f"/files/{safe_id(file_id)}"
        size = (await self._wire.get(path)).get("bytes")
        content, promised = await self._wire.download(f"{path}/content")
        return await lines.proven(content, promised.size, size if isinstance(size, int) else None)

    async def _files_named(self, name: str, horizon: datetime) -> set[str]:
        listed = self._pages("/files", horizon, purpose="batch", order="desc")
        return {word(file.get("id")) async for file in listed if file.get("filename") == name}

    async def _pages(self, path: str, horizon: datetime, **params: object) -> AsyncIterator[dict[str, Any]]:
        """What was created after *horizon*, newest first; a list that never ends is no list."""
        after: dict[str, object] = {}
        for _ in range(_PAGES):
            page = await self._wire.get(path, limit=_PAGE, **params, **after)
            if not isinstance(page.get("data"), list):
                raise Unreadable
            listed = items(page["data"])
            for entry in listed:
                created = moment(entry.get("created_at"))
                if created is not None and created < horizon:
                    return
                yield entry
            if not page.get("has_more") or not listed:
                return
            after = {"after": listed[-1].get("id")}
        raise Unreadable

    def _item(self, line: Mapping[str, Any]) -> ItemResult:
        """One line; what has no answer says why, in one class."""
        response = mapping(line.get("response"))
        status, body = response.get("status_code"), mapping(response.get("body"))
        custom_id, mark = word(line.get("custom_id")), lines.digest(status, body, line.get("error"))
        if line.get("error") is not None or not isinstance(status, int):
            return ItemResult(custom_id, failure=unanswered(mapping(line.get("error"))), digest=mark)
        if status not in _OK:
            return ItemResult(custom_id, failure=failure_of(status, body), digest=mark)
        at = moment(body.get("created_at", body.get("created")))
        return item_of(custom_id, lambda: self.answer(body), usage=self.usage(body), at=at, digest=mark)
