"""`penstock vault takeover`: how it went, what is in quarantine, and a second try."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from penstock.apps.vault.migrations import LINE
from penstock.cli.vault import app
from penstock.store import migrate
from penstock.store.roles import OPERATOR
from tests.apps.vault.takeover.outbox import LONG_AGO, Outbox


@pytest.fixture
def penstock(role_dsn: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The command, as an operator."""
    monkeypatch.setenv("PENSTOCK_DSN", role_dsn(OPERATOR))
    return lambda *words: CliRunner().invoke(app, ["takeover", *words])


def taken(outbox: Outbox) -> None:
    """Up, as Alembic leaves it."""
    outbox.up()
    outbox.run("update vault.schema_version set version_num = %s", migrate.versions(LINE)[-1])


def test_status_says_what_became_of_the_rows(outbox: Outbox, penstock: Callable[..., Any]) -> None:
    outbox.put("DONE")
    outbox.put("IN_PROGRESS", claimed_at=LONG_AGO)
    taken(outbox)
    done = penstock("status", "--json")
    assert done.exit_code == 0
    found = json.loads(done.output)
    assert (found["outbox"], found["found"], found["given_back"], found["quarantined"]) == (
        "vault.enrichment_outbox", 2, 1, 0,
    )  # fmt: skip
    assert found["moved"] == {"queued": 1, "processing": 0, "completed": 1, "failed": 0}
    assert (found["waiting"], found["held_by_pollers"]) == (1, 0)
    assert "vault.enrichment_outbox" in penstock("status").output


def test_status_before_the_take_over_says_what_to_run(outbox: Outbox, penstock: Callable[..., Any]) -> None:
    done = penstock("status")
    assert done.exit_code == 5
    assert "penstock migrate up" in done.stderr


def test_quarantine_names_problems_and_a_second_try_moves_what_was_mended(
    outbox: Outbox, penstock: Callable[..., Any]
) -> None:
    lost = uuid4()
    row = outbox.put("PENDING", item_id=lost, last_error="he wrote: my secret")
    outbox.put("BANANA")
    taken(outbox)
    listed = penstock("quarantine")
    assert listed.exit_code == 1
    assert f"there is no item {lost} in vault.items" in listed.output
    assert "BANANA" in listed.output
    assert "secret" not in listed.output
    assert penstock("status").exit_code == 1

    outbox.run("insert into vault.items (id, owner_id, kind, content) values (%s, %s, 'note', 'x')", lost, uuid4())
    again = penstock("quarantine", "--retry")
    assert (again.exit_code, again.output.splitlines()[0]) == (1, "1 rows have moved.")
    assert outbox.job(row)["status"] == "queued"

    outbox.run("""update vault.outbox_quarantine set "row" = "row" || '{"status": "DONE"}'""")
    assert json.loads(penstock("quarantine", "--retry", "--json").output) == {"moved": 1, "quarantined": 0}
    empty = penstock("quarantine")
    assert (empty.exit_code, empty.output) == (0, "Nothing is in quarantine.\n")
