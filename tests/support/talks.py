"""An adapter's conversation with the emulator or with aimock, and everything of it that went over the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from penstock.contract.calls import Answer, Request
from penstock.contract.custom_ids import custom_id
from penstock.emulator import Emulator
from penstock.providers.port import BatchAdapter, BatchState, ItemResult, Phase, Submission
from penstock.providers.registry import Adapters
from tests.providers.kinds import GEMINI, Kind
from tests.providers.support import KEY, request
from tests.support.emulator import BATCH_SECONDS
from tests.support.exchanges import Exchange, Recorder
from tests.support.third_parties import Aimock

_DAY = timedelta(days=1)


@dataclass
class Talk:
    """One adapter with one server: what it was told, and everything that went over the wire."""

    adapter: BatchAdapter
    asked: Request
    recorder: Recorder
    later: Callable[[], None] = lambda: None  # let batches come to their end
    lines: list[bytes] = field(default_factory=list)

    @property
    def exchanges(self) -> list[Exchange]:
        return self.recorder.exchanges

    async def ask(self) -> Answer:
        return await self.adapter.call(self.asked, seconds=10)

    def submission(self) -> Submission:
        batch_id = uuid4()
        lines = [
            self.adapter.line(custom_id(batch_id, number, 1), replace(self.asked, text=f"text {number}"))
            for number in range(2)
        ]
        self.lines += lines
        return Submission(batch_id, self.asked.route.model, lines, datetime.now(UTC))

    async def submit(self) -> tuple[Submission, str]:
        sent = self.submission()
        uploaded = await self.adapter.upload(sent)
        return sent, (await self.adapter.create(sent, uploaded)).provider_batch_id

    async def batch(self) -> tuple[Submission, BatchState, list[ItemResult]]:
        """A batch to its end and beyond: found by its token, and cleared away."""
        sent, made = await self.submit()
        assert (await self.adapter.poll(made)).phase is Phase.RUNNING
        self.later()
        state = await self.adapter.poll(made)
        items = [item async for item in self.adapter.results(state)]
        found = await self.adapter.find(sent.batch_id, sent.created_at - _DAY, sent.created_at + _DAY)
        assert [batch.provider_batch_id for batch in found] == [made]
        await self.adapter.discard(state)
        return sent, state, items

    async def stopped(self) -> None:
        """A batch that is cancelled under way, and an input that no batch was made of."""
        _, made = await self.submit()
        await self.adapter.cancel(made)
        stray = self.submission()
        await self.adapter.upload(stray)
        await self.adapter.discard_input(stray.batch_id, stray.created_at - _DAY)


@asynccontextmanager
async def talk(kind: Kind, url: str, path: Callable[[str], str] = str) -> AsyncIterator[Talk]:
    asked = request(kind.name, base_url=url)
    recorder = Recorder(kind.name.partition("_")[0], path)
    adapters = Adapters({"openai": KEY, "gemini": KEY, "anthropic": KEY}, transport=recorder)
    try:
        yield Talk(adapters.get(asked.route), asked, recorder)
    finally:
        await adapters.close()


@asynccontextmanager
async def at_the_emulator(kind: Kind) -> AsyncIterator[tuple[Talk, Emulator]]:
    with Emulator(finish_after=BATCH_SECONDS, frozen=True) as emulator:
        urls = {
            "openai": emulator.openai_base_url,
            "gemini": emulator.gemini_base_url,
            "anthropic": emulator.anthropic_base_url,
        }
        async with talk(kind, urls[kind.name.partition("_")[0]]) as made:
            made.later = lambda: emulator.advance(BATCH_SECONDS)
            yield made, emulator


@asynccontextmanager
async def at_aimock(kind: Kind, server: Aimock) -> AsyncIterator[Talk]:
    """It knows Gemini under its beta's path only."""
    urls = {"openai": f"{server.url}/v1", "gemini": server.url, "anthropic": server.url}
    beta = (lambda path: path.replace("/v1/", "/v1beta/")) if kind is GEMINI else str
    async with talk(kind, urls[kind.name.partition("_")[0]], beta) as made:
        yield made
