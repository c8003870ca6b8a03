"""Every adapter asks for an item in its own way, and what comes back is the same enrichment."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest

from penstock.emulator import Emulator
from tests.apps.vault.conftest import opened_world

MODELS = {
    "openai_responses:gpt-5-mini": "openai_base_url",
    "openai_chat:gpt-5-mini": "openai_base_url",
    "anthropic_messages:claude-haiku-4-5": "anthropic_base_url",
    "gemini_generate:gemini-2.5-flash": "gemini_base_url",
}


@pytest.mark.parametrize("model", MODELS)
async def test_an_item_is_enriched_through_every_adapter(
    model: str, dsn: str, role_dsn: Callable[[str], str], emulator: Emulator, log: StringIO
) -> None:
    where = getattr(emulator, MODELS[model])
    async with opened_world(dsn, role_dsn, emulator, log, vault_model=model, vault_model_url=where) as world:
        item = await world.save("Met Mira Keller at the harbour. The contract is ready.")
        await world.work()
        found = await world.item(item)
        assert (str(found.status), found.title) == ("READY_TO_CONFIRM", "Met Mira Keller at the harbour")
        assert found.enrichment is not None
        assert [entity.name for entity in found.enrichment.entities] == ["Mira Keller"]
        spent = await world.owner.fetchrow("select model, calls from penstock.spend")
        assert spent is not None
        assert (spent["model"], spent["calls"]) == (model.partition(":")[2], 1)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("refusal", "POLICY_REJECTED"), ("huge", "SCHEMA_INVALID"), ("nul", "SCHEMA_INVALID"),
        ("not_json", "SCHEMA_INVALID"), ("wrong_schema", "SCHEMA_INVALID"), ("empty_answer", "SCHEMA_INVALID"),
    ],
)  # fmt: skip
async def test_an_answer_that_is_of_no_use_fails_the_item_with_a_class_of_the_list(
    fault: str, code: str, dsn: str, role_dsn: Callable[[str], str], emulator: Emulator, log: StringIO
) -> None:
    emulator.faults.add(fault)
    async with opened_world(dsn, role_dsn, emulator, log) as world:
        item = await world.save()
        await world.work()
        row = await world.row(item)
        assert (row["status"], row["failure_code"], row["enrichment"]) == ("ENRICHMENT_FAILED", code, None)
