"""The adapter `anthropic_messages`: Anthropic's Messages API, one call at a time or in batches.

A batch carries no metadata and no name. Whose it is shows only in the custom
ids of its results, and those exist once it has ended (C-66).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.calls import Answer
from penstock.contract.errors import EffectUncertain, Failed
from penstock.contract.failures import FailureClass
from penstock.providers import lines
from penstock.providers.answers import checked_text, count, fit, item_of, items, mapping, moment, paid, usage_of, word
from penstock.providers.failing import Unreadable, acts, asks, failure, failure_of, unanswered
from penstock.providers.lenience import unless_gone, unless_over
from penstock.providers.port import BatchLimits, BatchState, Created, ItemResult, Lookup, Phase, Submission, Uploaded
from penstock.providers.wire import Wire, safe_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from anthropic import AsyncAnthropic

    from penstock.contract.calls import Request, Usage
    from penstock.contract.classify import Failure

BATCHES: Final = "/v1/messages/batches"
SKEW: Final = timedelta(minutes=10)  # between the database's clock and the provider's
_STATES: Final = frozenset({"in_progress", "canceling", "ended"})
_COUNTS: Final = ("processing", "succeeded", "errored", "canceled", "expired")
_SHOWN: Final = 8  # results that tell whose a batch is: more than one, should a foreign one be among them
_PAGE: Final = 100
_PAGES: Final = 1000
_OPENING, _CLOSING = b'{"requests":[', b"]}"
_STOPS: Final[Mapping[str, FailureClass]] = {
    "refusal": FailureClass.POLICY_REJECTED,
    "max_tokens": FailureClass.SCHEMA_INVALID,
    "model_context_window_exceeded": FailureClass.SCHEMA_INVALID,
    "tool_use": FailureClass.SCHEMA_INVALID,  # none was offered
    "pause_turn": FailureClass.UPSTREAM_5XX,
}


class AnthropicMessages:
    """Messages."""

    kind: str = "anthropic_messages"
    provider: str = "anthropic"
    supports_micro_batch: bool = False
    limits: BatchLimits = BatchLimits(
        items=100_000, body_bytes=200_000_000, window=timedelta(hours=24), grace=timedelta(minutes=10)
    )
    lookup: Lookup = Lookup.AFTER_END

    def __init__(self, client: AsyncAnthropic) -> None:
        self._wire = Wire(client)

    async def close(self) -> None:
        """Give the connections back."""
        await self._wire.close()

    @asks
    async def call(self, request: Request, *, seconds: float) -> Answer:
        """Ask once; what comes back fits the schema that was asked for."""
        message = await self._wire.post("/v1/messages", _body(request), seconds=seconds)
        with paid(_usage(message)):
            return fit(_answer(message), request.schema)

    def line(self, custom_id: str, request: Request) -> bytes:
        """One request of one user."""
        return lines.encode({"custom_id": custom_id, "params": _body(request)})

    async def upload(self, submission: Submission) -> Uploaded:  # noqa: ARG002 - the port's shape
        """Nothing: the requests travel with the create."""
        return Uploaded()

    @acts
    async def create(self, submission: Submission, uploaded: Uploaded) -> Created:  # noqa: ARG002 - nothing was uploaded
        """Create it with all its requests; the token is in their custom ids."""
        size = len(_OPENING) + sum(len(line) + 1 for line in submission.lines) - 1 + len(_CLOSING)
        return _created(await self._wire.send(BATCHES, _joined(submission.lines), size))

    @asks
    async def find(self, submission_id: UUID, since: datetime, until: datetime) -> list[Created]:
        """The ended batches of that time whose results carry our token.

        While a batch of that time is still running, or has ended and shows no
        results, nobody can tell whose it is: `EffectUncertain`, unless ours has
        been found already. One that was created later is not ours: a busy lane
        would never come to an end.
        """
        found, silent = [], False
        async for batch in self._recent(since - SKEW):
            if (moment(batch.get("created_at")) or until) > until:
                continue
            if batch.get("processing_status") != "ended" or not batch.get("results_url"):
                silent = True
            elif await self._is_of(batch, submission_id.hex):
                found.append(_created(batch))
        if silent and not found:
            raise EffectUncertain("a batch of that time does not show whose it is yet: only its results will")
        return found

    @asks
    async def poll(self, provider_batch_id: str) -> BatchState:
        """Where it stands."""
        return _state(await self._wire.get(f"{BATCHES}/{safe_id(provider_batch_id)}"))

    async def results(self, state: BatchState) -> AsyncIterator[ItemResult]:
        """Every line; the artifact is whole before the first is given out."""
        async for line in lines.objects(await self._artifact(state.provider_batch_id)):
            yield _item(line)

    async def cancel(self, provider_batch_id: str) -> None:
        """Ask it to stop; one that has ended, or is stopping, is left alone."""
        await unless_over(self._cancel(provider_batch_id), lambda: self.poll(provider_batch_id), "canceling")

    async def discard(self, state: BatchState) -> None:
        """Delete it with its results."""
        await unless_gone(self._delete(state.provider_batch_id))

    async def discard_input(self, submission_id: UUID, since: datetime) -> None:  # noqa: ARG002 - the port's shape
        """Nothing: without a batch there is no input."""
        return

    @asks
    async def _artifact(self, provider_batch_id: str) -> bytearray:
        content, promised = await self._wire.download(f"{BATCHES}/{safe_id(provider_batch_id)}/results")
        return await lines.proven(content, promised.size, framed=promised.framed)

    @asks
    async def _cancel(self, provider_batch_id: str) -> None:
        await self._wire.post(f"{BATCHES}/{safe_id(provider_batch_id)}/cancel")

    @asks
    async def _delete(self, provider_batch_id: str) -> None:
        await self._wire.delete(f"{BATCHES}/{safe_id(provider_batch_id)}")

    async def _recent(self, horizon: datetime) -> AsyncIterator[dict[str, Any]]:
        """Batches created after *horizon*, newest first; a list that never ends is no list."""
        after: dict[str, object] = {}
        for _ in range(_PAGES):
            page = await self._wire.get(BATCHES, limit=_PAGE, **after)
            if not isinstance(page.get("data"), list):
                raise Unreadable
            listed = items(page["data"])
            for batch in listed:
                created = moment(batch.get("created_at"))
                if created is not None and created < horizon:
                    return
                yield batch
            if not page.get("has_more") or not listed:
                return
            after = {"after_id": listed[-1].get("id")}
        raise Unreadable

    async def _is_of(self, batch: Mapping[str, Any], token: str) -> bool:
        """Whether one of its first results has a custom id of ours; every id of a batch begins with its token.

        A no is part of the proof that there is no such batch, after which its
        jobs are sent again: it takes results that name others, read to the end
        or to where they have said enough.
        """
        path = f"{BATCHES}/{safe_id(word(batch.get('id')))}/results"
        head, promised = await self._wire.download(path, enough=_tells)
        names = [name async for line in lines.objects(head) if (name := word(line.get("custom_id")))]
        if any(name.startswith(f"{token}-") for name in names):
            return True
        if not _tells(head):
            await lines.proven(head, promised.size, framed=promised.framed)
        if not names:
            raise Unreadable
        return False


def _body(request: Request) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.route.model,
        "max_tokens": request.max_output_tokens,
        "messages": [{"role": "user", "content": request.text}],
    }
    if request.instructions:
        body["system"] = request.instructions
    if request.schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.schema)}}
    return body


def _answer(message: Mapping[str, Any]) -> Answer:
    """The text of a finished message; a refusal and a cut are failures behind a 200."""
    if message.get("type") != "message" or not isinstance(message.get("content"), list):
        raise Unreadable
    stopped = _STOPS.get(str(message.get("stop_reason")))
    if stopped is not None:
        raise Failed(stopped)
    texts = [part.get("text") for part in items(message["content"]) if part.get("type") == "text"]
    if not texts:
        raise Unreadable
    return Answer(
        text=checked_text("".join(checked_text(text) for text in texts)),
        usage=_usage(message),
        model=word(message.get("model")),
        provider_id=word(message.get("id")),
    )


def _usage(message: Mapping[str, Any]) -> Usage:
    """Cached input is counted beside the rest, so all three are what was read."""
    usage = mapping(message.get("usage"))
    cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
    read = sum(count(usage.get(name)) or 0 for name in ("input_tokens", *cached))
    return usage_of({"read": read, "written": usage.get("output_tokens")}, "read", "written")


def _item(line: Mapping[str, Any]) -> ItemResult:
    result = mapping(line.get("result"))
    custom_id, mark = word(line.get("custom_id")), lines.digest(result)
    if result.get("type") == "succeeded":
        message = mapping(result.get("message"))
        return item_of(custom_id, lambda: _answer(message), usage=_usage(message), at=None, digest=mark)
    return ItemResult(custom_id, failure=_failure(result), digest=mark)


def _failure(result: Mapping[str, Any]) -> Failure:
    if result.get("type") in ("expired", "canceled"):
        return failure(FailureClass.BATCH_EXPIRED)
    outer = mapping(result.get("error"))
    error = mapping(outer.get("error")) or outer
    if error.get("type") == "invalid_request_error":
        return failure_of(400, error)
    return unanswered(error)


def _state(batch: Mapping[str, Any]) -> BatchState:
    said = batch.get("processing_status")
    counts = mapping(batch.get("request_counts"))
    numbers = {name: count(counts.get(name)) or 0 for name in _COUNTS}
    identity = word(batch.get("id"))
    if not identity:
        raise Unreadable
    return BatchState(
        provider_batch_id=identity,
        phase=_phase(batch),
        provider_status=said if isinstance(said, str) and said in _STATES else "unknown",
        expires_at=moment(batch.get("expires_at")),
        total=sum(numbers.values()) if counts else None,
        completed=numbers["succeeded"] if counts else None,
        failed=numbers["errored"] if counts else None,
    )


def _phase(batch: Mapping[str, Any]) -> Phase:
    """An ended batch was cancelled, ran out of time, or is complete: its times tell, its counts need not."""
    if batch.get("processing_status") != "ended":
        return Phase.RUNNING
    if batch.get("cancel_initiated_at"):
        return Phase.CANCELLED
    ended, expires = moment(batch.get("ended_at")), moment(batch.get("expires_at"))
    return Phase.EXPIRED if ended and expires and ended >= expires else Phase.COMPLETED


def _created(batch: Mapping[str, Any]) -> Created:
    state = _state(batch)
    return Created(
        provider_batch_id=state.provider_batch_id,
        created_at=moment(batch.get("created_at")),
        expires_at=state.expires_at,
        ended=state.phase is not Phase.RUNNING,
        cancelled=state.provider_status == "canceling" or state.phase is Phase.CANCELLED,
    )


def _tells(head: bytearray) -> bool:
    return head.count(lines.NEWLINE) >= _SHOWN


async def _joined(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    yield _OPENING
    for number, part in enumerate(parts):
        yield b"," + part if number else part
    yield _CLOSING
