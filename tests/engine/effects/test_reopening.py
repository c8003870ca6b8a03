"""What counted as done turns out not to have happened: opened again on proof, and performed once more."""

from __future__ import annotations

import pytest

from penstock import Penstock
from penstock.testing import Harness
from tests.engine.effects.conftest import Outside
from tests.engine.effects.ledger import effects, mailing, tries


@pytest.mark.contract("C-61", "C-43")
async def test_an_effect_that_was_opened_again_is_performed_without_asking(app: Penstock, outside: Outside) -> None:
    results = mailing(app, outside, key="one")
    async with Harness(app) as harness:
        await harness.enqueue("mail")
        await harness.drain()
        key = await app.pool.fetchval("select effect_key from penstock.effects")
        outside.performed.clear()  # it never was there
        assert await app.pool.fetchval("select penstock.reopen_effect($1, 'sweep')", key) == "abandoned"
        await harness.enqueue("mail")
        await harness.drain()
        assert await effects(app) == [("done", 2)]
        assert ("settle", "reopened by sweep") in await tries(app)
    assert (outside.total, outside.asked, len(results)) == (1, [], 2)


@pytest.mark.parametrize("state", ["intended", "uncertain", "abandoned"])
async def test_only_what_is_done_is_opened_again(app: Penstock, state: str) -> None:
    async with Harness(app):
        await app.pool.execute(
            "insert into penstock.effects (effect_key, kind, token, intended_at, state) "
            "values ('mail:1', 'mail', 't', penstock.now(), $1)",
            state,
        )
        assert await app.pool.fetchval("select penstock.reopen_effect('mail:1', 'sweep')") == state
        assert await app.pool.fetchval("select penstock.reopen_effect('nope', 'sweep')") is None
        assert await tries(app) == []
