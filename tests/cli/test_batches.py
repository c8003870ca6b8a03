"""`penstock batches` and `penstock spend`: the operator's view of the lane."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from penstock.contract.custom_ids import custom_id
from penstock.contract.keys import uuid7
from tests.support.desk import Desk
from tests.support.desks import Command


def put_batch(desk: Desk, state: str = "submitted", *, items: tuple[str, ...] = ("open", "completed")) -> UUID:
    """A batch as a submitter leaves it, with items that stand where they are told."""
    batch_id = uuid7()
    desk.owner.execute(
        "insert into penstock.batches (batch_id, state, job_type, stage, adapter, provider, model, prompt_version, "
        "policy_version, execution_mode, lane, source_locale, target_locale, item_count, body_bytes, body_sha256, "
        "provider_batch_id, created_at, submitted_at, deadline_at, collected_at) "
        "values (%s, %s, 'letters', 'run', 'fake', 'acme', 'small', 'v1', 'v1', 'batch', 'default', 'de', 'en', %s, 1, "
        "'x', %s, penstock.now() - interval '2 hours', penstock.now(), penstock.now() + interval '3 hours', %s)",
        (batch_id, state, len(items), f"pb_{batch_id.hex[-6:]}", "now" if state == "collected" else None),
    )
    for number, item in enumerate(items):
        desk.owner.execute(
            "insert into penstock.batch_items (batch_id, batch_item_index, job_id, claim_seq, attempt, custom_id, "
            "state, settled_at, input_tokens, output_tokens, cost_micros) "
            "values (%s, %s, %s, 1, 1, %s, %s, case when %s <> 'open' then penstock.now() end, 10, 5, 2500)",
            (batch_id, number, uuid4(), custom_id(batch_id, number, 1), item, item),
        )
    return batch_id


def told(penstock: Command, *arguments: str) -> Any:
    result = penstock(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_list_shows_states_counts_ages_and_deadlines(desk: Desk, penstock: Command) -> None:
    batch_id = put_batch(desk)

    (row,) = told(penstock, "batches", "list")

    assert (row["batch_id"], row["state"], row["item_count"]) == (str(batch_id), "submitted", 2)
    assert (row["open_items"], row["completed_items"], row["cost"]) == (1, 1, "0.0050")
    assert 7199 < row["age"] < 7300
    assert 10700 < row["time_left"] < 10801
    table = penstock("batches", "list")
    assert "submitted" in table.stdout
    assert "2:00:0" in table.stdout


def test_the_list_can_be_narrowed(desk: Desk, penstock: Command) -> None:
    put_batch(desk, "collected", items=("completed",))
    waiting = put_batch(desk)

    assert [row["batch_id"] for row in told(penstock, "batches", "list", "--state", "open")] == [str(waiting)]
    assert len(told(penstock, "batches", "list", "--type", "letters")) == 2
    assert told(penstock, "batches", "list", "--type", "other") == []
    assert "No batches." in penstock("batches", "list", "--type", "other").stdout


def test_one_batch_is_shown_with_its_items(desk: Desk, penstock: Command) -> None:
    batch_id = put_batch(desk, items=("open", "completed", "failed"))

    shown = told(penstock, "batches", "show", str(batch_id))

    assert [item["state"] for item in shown["items"]] == ["open", "completed", "failed"]
    text = penstock("batches", "show", str(batch_id), "--limit", "2").stdout
    assert "2 of 3 items" in text
    assert "time left" in text


def test_a_batch_that_is_not_there_is_not_found(penstock: Command) -> None:
    for command in ("show", "cancel"):
        result = penstock("batches", command, str(uuid4()))
        assert result.exit_code == 3
        assert "penstock batches list" in result.output


def test_calling_a_batch_off_is_the_collectors_next_task(desk: Desk, penstock: Command) -> None:
    batch_id = put_batch(desk)

    assert told(penstock, "batches", "cancel", str(batch_id)) == {"batch_id": str(batch_id), "cancel_asked": True}

    row = desk.row(
        "select *, next_poll_at <= penstock.now() as due from penstock.batches where batch_id = %s", batch_id
    )
    assert row["cancel_asked_at"] is not None
    assert row["due"]
    assert row["state"] == "submitted"


def test_only_a_batch_at_its_provider_can_be_called_off(desk: Desk, penstock: Command) -> None:
    batch_id = put_batch(desk, "collected", items=("completed",))

    result = penstock("batches", "cancel", str(batch_id))

    assert result.exit_code == 6
    assert "is collected" in result.output


@pytest.fixture
def spent(desk: Desk) -> None:
    for day, job_type, model, target, cost in (
        ("2026-11-01", "letters", "small", "en", 1_500_000),
        ("2026-11-02", "letters", "small", "es", 500_000),
        ("2026-11-02", "letters", "large", "en", 4_000_000),
        ("2026-11-02", "notes", "small", "en", 1),
    ):
        desk.owner.execute(
            "insert into penstock.spend values (%s, %s, 'acme', %s, 'de', %s, 'batch', 2, 10, 5, %s)",
            (day, job_type, model, target, cost),
        )


@pytest.mark.contract("C-64")
@pytest.mark.usefixtures("spent")
def test_spend_is_told_by_type_model_and_pair(penstock: Command) -> None:
    rows = told(penstock, "spend")

    assert [(row["job_type"], row["model"], row["pair"], row["cost"]) for row in rows] == [
        ("letters", "acme/large", "de>en", "4.0000"),
        ("letters", "acme/small", "de>en", "1.5000"),
        ("letters", "acme/small", "de>es", "0.5000"),
        ("notes", "acme/small", "de>en", "0.0000"),
    ]


@pytest.mark.usefixtures("spent")
def test_spend_is_told_by_whatever_is_asked_for(penstock: Command) -> None:
    by_day = told(penstock, "spend", "--by", "day", "--type", "letters")
    assert [(row["day"], row["cost_micros"], row["calls"]) for row in by_day] == [
        ("2026-11-02", 4_500_000, 4),
        ("2026-11-01", 1_500_000, 2),
    ]
    assert [row["cost_micros"] for row in told(penstock, "spend", "--by", "type", "--until", "2026-11-01")] == [
        1_500_000
    ]
    assert "Nothing was spent." in penstock("spend", "--since", "2027-01-01").stdout
