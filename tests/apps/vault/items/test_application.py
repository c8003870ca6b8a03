"""The application as commands load it, and the statement that lists items."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from penstock.apps.vault import application, vault_app
from penstock.apps.vault.statements import sql
from penstock.contract.contract_types import enrichment
from penstock.contract.errors import SettingsInvalid
from penstock.engine.locate import find_app
from tests.apps.vault.conftest import World


def test_a_worker_finds_the_application_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", "postgresql://nobody@127.0.0.1:1/nowhere")
    application.vault.cache_clear()
    try:
        found = find_app("penstock.apps.vault:app")
        assert [job_type.name for job_type in found.types] == ["enrichment"]
    finally:
        application.vault.cache_clear()


def test_the_type_has_the_policy_of_its_contract_and_logs_the_item() -> None:
    declared = vault_app(dsn="postgresql://nobody@127.0.0.1:1/nowhere").enrichment
    assert declared.policy == enrichment()
    assert declared.log_ids == ("item_id",)


@pytest.mark.parametrize(
    "wrong", [{"vault_model": "gpt"}, {"vault_max_item_bytes": 10}, {"vault_max_item_bytes": 2_000_000}]
)
def test_absurd_settings_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsInvalid, match=f"PENSTOCK_{next(iter(wrong)).upper()}"):
        vault_app(**wrong)


async def test_a_page_of_items_is_read_from_the_index(world: World) -> None:
    await world.owner.execute(
        "insert into vault.items (id, owner_id, kind, content, created_at) select gen_random_uuid(), "
        "case when n % 2 = 0 then $1::uuid else gen_random_uuid() end, 'note', 'x', now() - n * interval '1 second' "
        "from generate_series(1, 4000) as n",
        world.person,
    )
    await world.owner.execute("analyze vault.items")
    middle = await world.owner.fetchval(
        "select id from vault.items where owner_id = $1 order by created_at desc, id desc offset 1000 limit 1",
        world.person,
    )
    for before in (None, str(middle)):
        rows = await world.owner.fetch(
            f"explain (format json) {sql('items/list')}", str(world.person), None, before, 20
        )
        plan = json.loads(rows[0][0])[0]["Plan"]
        scan = next(node for node in _nodes(plan) if node.get("Index Name") == "items_of_owner")
        assert "created_at" in scan["Index Cond"]
        assert "Sort" not in {node["Node Type"] for node in _nodes(plan)}
    listed = await world.people.list_items(owner_id=world.person, limit=20, before=middle)
    assert len(listed) == 20
    assert await world.people.list_items(owner_id=world.person, before=uuid4()) == []


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for inner in plan.get("Plans", ()) for node in _nodes(inner))]
