"""Bad input from both sides: each ends as its own failure class, in words that help, and without a partial output."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock import Failed, FailureClass, Penstock
from penstock.contract.calls import Answer, Execution, Request, Route
from penstock.emulator import Emulator
from penstock.emulator.sentences import FOREIGN
from penstock.providers.openai_responses import OpenAIResponses
from penstock.providers.port import BatchLimits
from tests.engine.batches.scenarios import OPENAI, World, emulator, everywhere, make_app, started
from tests.engine.owners import owner_of

__all__ = ["emulator", "started"]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
FLAWS = {
    "huge": ("SCHEMA_INVALID", "larger than 1 MB"),
    "not_json": ("SCHEMA_INVALID", "no JSON"),
    "wrong_schema": ("SCHEMA_INVALID", "does not fit its JSON schema"),
    "nul": ("SCHEMA_INVALID", "NUL"),
    "wrong_language": ("LOCALE_MISMATCH", "another language"),
}


def accept(_job: Any, _args: Any, answer: Answer) -> str:
    """What every type does about the language it has asked for."""
    if FOREIGN in answer.text:
        raise Failed(FailureClass.LOCALE_MISMATCH, "the answer is in another language")
    return answer.text


@asynccontextmanager
async def opened(app: Penstock, dsn: str, emulator: Emulator, kind: str = OPENAI) -> AsyncIterator[World]:
    async with app:
        await app.sync_types()
        yield World(app, dsn, owner_of(app), emulator, kind)


async def letter(world: World, number: int) -> tuple[str, str, int]:
    """Class, message and attempts of the dead letter of a job."""
    row = await world.owner.fetchrow(
        "select letter.error_class, job.last_error_message, letter.attempts "
        "from penstock.dead_letters letter join penstock.jobs job using (job_id) where letter.job_id = $1",
        world.ids[number],
    )
    assert row is not None
    return tuple(row)


@everywhere
@pytest.mark.parametrize("execution", ["batch", "async"])
@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.contract("A-62", "A-94", "A-96")
async def test_an_answer_that_will_not_do_ends_its_own_job_and_leaves_nothing_behind(
    dsn: str, emulator: Emulator, kind: str, execution: str, flaw: str
) -> None:
    size = {"bytes": 2_000_000} if flaw == "huge" else {}
    emulator.faults.add(flaw, text=r"letter 1\b", **size)
    app = make_app(dsn, kind, emulator, execution=execution, schema=SCHEMA, accept=accept)
    async with opened(app, dsn, emulator, kind) as world:
        await world.fill(3)
        await world.submit()
        await world.come_back()

        code, words = FLAWS[flaw]
        assert [end[0] for end in await world.ends()] == ["completed", "failed", "completed"]
        error_class, message, attempts = await letter(world, 1)
        assert (error_class, attempts) == (code, 1)
        assert words in message
        assert await world.outputs() == {0, 2}


@pytest.mark.parametrize("execution", ["batch", "async"])
async def test_an_adapter_that_nobody_knows_is_told_with_those_there_are(
    dsn: str, emulator: Emulator, execution: str
) -> None:
    def build(_job: Any, args: dict[str, Any]) -> Request:
        adapter = "telepathy" if args["n"] == 1 else OPENAI
        route = Route("openai", "m", adapter, emulator.openai_base_url, Execution(execution))
        return Request(route, "Rewrite.", f"letter {args['n']}")

    async with opened(make_app(dsn, OPENAI, emulator, build=build), dsn, emulator) as world:
        await world.fill(3)
        await world.submit()
        await world.come_back()

        assert [end[0] for end in await world.ends()] == ["completed", "failed", "completed"]
        error_class, message, _ = await letter(world, 1)
        assert error_class == "CONFIG_INVALID"
        assert "telepathy" in message
        assert "openai_responses" in message


async def test_a_missing_key_is_told_by_the_name_of_its_setting(dsn: str, emulator: Emulator) -> None:
    async with opened(make_app(dsn, OPENAI, emulator, key=None), dsn, emulator) as world:
        await world.fill(2)
        await world.submit()

        assert await world.ends() == [("queued", 0, "CONFIG_INVALID")] * 2  # nobody's failure: they wait for the key
        subject = await world.owner.fetchval(
            "select subject::text from penstock.alerts where kind = 'batch_submission_refused'"
        )
        assert "PENSTOCK_OPENAI_API_KEY" in subject


async def test_a_missing_key_fails_a_single_call_in_the_same_words(dsn: str, emulator: Emulator) -> None:
    async with opened(make_app(dsn, OPENAI, emulator, key=None, execution="async"), dsn, emulator) as world:
        await world.fill(1)
        await world.submit()

        error_class, message, _ = await letter(world, 0)
        assert error_class == "CONFIG_INVALID"
        assert "PENSTOCK_OPENAI_API_KEY" in message


@pytest.mark.parametrize("execution", ["batch", "async"])
async def test_a_model_that_the_provider_does_not_know_is_a_matter_of_configuration(dsn: str, execution: str) -> None:
    with Emulator(finish_after=60, frozen=True, models=["model-1"]) as provider:
        app = make_app(dsn, OPENAI, provider, execution=execution, model="model-0")
        async with opened(app, dsn, provider) as world:
            await world.fill(1)
            await world.submit()
            await world.come_back()

            assert await world.ends() == [("failed", 1, "CONFIG_INVALID")]
            assert await world.outputs() == set()
            context = await world.owner.fetchval("select sanitized_context::text from penstock.dead_letters")
            assert "model_not_found" in context


@pytest.mark.parametrize("execution", ["batch", "async"])
async def test_a_prompt_version_that_the_type_does_not_know_is_told_before_anything_is_sent(
    dsn: str, emulator: Emulator, execution: str
) -> None:
    def build(_job: Any, _args: Any) -> Request:
        raise Failed(FailureClass.CONFIG_INVALID, "there is no prompt version v9; deploy it, or enqueue with v1")

    app = make_app(dsn, OPENAI, emulator, build=build, execution=execution)
    async with opened(app, dsn, emulator) as world:
        await world.fill(1)
        await world.submit()

        error_class, message, _ = await letter(world, 0)
        assert (error_class, "v9" in message) == ("CONFIG_INVALID", True)
        assert emulator.calls == []


async def test_one_job_larger_than_what_the_provider_takes_fails_alone(
    dsn: str, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = OpenAIResponses.limits
    monkeypatch.setattr(OpenAIResponses, "limits", BatchLimits(limits.items, 2000, limits.window))

    def build(_job: Any, args: dict[str, Any]) -> Request:
        text = "x" * 3000 if args["n"] == 1 else f"letter {args['n']}"
        return Request(Route("openai", "m", OPENAI, emulator.openai_base_url), "Rewrite.", text)

    async with opened(make_app(dsn, OPENAI, emulator, build=build), dsn, emulator) as world:
        await world.fill(3)
        await world.submit()
        await world.come_back()

        assert [end[0] for end in await world.ends()] == ["completed", "failed", "completed"]
        error_class, message, _ = await letter(world, 1)
        assert error_class == "PAYLOAD_REJECTED"
        assert "0.002 MB" in message


async def test_a_type_whose_text_is_private_keeps_the_class_and_no_words(dsn: str, emulator: Emulator) -> None:
    emulator.faults.add("not_json")
    app = make_app(dsn, OPENAI, emulator, schema=SCHEMA, error_messages=False)
    async with opened(app, dsn, emulator) as world:
        await world.fill(1)
        await world.submit()
        await world.come_back()

        assert (await letter(world, 0))[:2] == ("SCHEMA_INVALID", "SCHEMA_INVALID")
