"""`penstock vault`: what it prints, what it refuses, with which code, and that no error repeats an item."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from typer.testing import Result

from penstock.apps.vault import ItemStatus, use_cases
from penstock.apps.vault.models import ItemKind
from penstock.cli import vault as commands
from tests.apps.vault.typed import TYPE_ROW
from tests.support.desks import penstock

__all__ = ["penstock"]

CANARY = "canary-55aa"
ME = str(UUID(int=0xA))
FOUND = {"summary": "Short.", "tags": ["a"], "language": "en", "entities": [{"name": "Mira", "kind": "person"}]}
Command = Callable[..., Result]


@pytest.fixture
def run(penstock: Command, dsn: str) -> Command:
    """A command as the orchestrator, for one owner, on a database that knows the type."""
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(TYPE_ROW)

    def invoke(command: str, *arguments: str, owner: str = ME, stdin: str | None = None) -> Result:
        return penstock("vault", command, *arguments, "--owner", owner, role="penstock_orchestrator", stdin=stdin)

    return invoke


def said(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def fail_job(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("select penstock.cancel(job_id, 'tester', 'no longer wanted') from penstock.jobs")


def make_ready(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(
            "update vault.items set status = 'READY_TO_CONFIRM', title = 'A note', enrichment = %s",
            [json.dumps(FOUND)],
        )


def test_an_item_is_saved_listed_shown_and_confirmed(run: Command, dsn: str) -> None:
    item_id = run("save", f"Call Mira. {CANARY}", "--kind", "note").stdout.strip()
    assert said(run("list", "--json"))[0]["status"] == "ENRICHING"
    make_ready(dsn)
    shown = said(run("show", item_id, "--json"))
    assert (shown["item_id"], shown["title"], shown["enrichment"]["tags"]) == (item_id, "A note", ["a"])
    assert CANARY in shown["content"]
    told = run("show", item_id).stdout
    assert "Mira (person)" in told
    assert "READY_TO_CONFIRM" in run("list").stdout
    assert run("confirm", item_id).stdout == f"{item_id} is CONFIRMED.\n"
    assert [row["item_id"] for row in said(run("list", "--status", "confirmed", "--json"))] == [item_id]
    assert run("list", owner=str(uuid4())).stdout == "No items.\n"


def test_a_failed_enrichment_is_asked_for_again_and_an_item_discarded(run: Command, dsn: str) -> None:
    item_id = said(run("save", "x", "--json"))["item_id"]
    fail_job(dsn)
    assert said(run("show", item_id, "--json"))["failure_code"] == "CANCELED"
    assert said(run("enrich", item_id, "--json")) == {"item_id": item_id, "status": "ENRICHING"}
    assert run("discard", item_id).stdout == f"{item_id} is DISCARDED.\n"


def test_content_comes_from_a_file_or_from_standard_input(run: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text("From a file.")
    first = said(run("save", "--file", str(page), "--json"))["item_id"]
    second = said(run("save", "-", "--json", stdin="From a pipe."))["item_id"]
    assert [said(run("show", each, "--json"))["content"] for each in (first, second)] == [
        "From a file.",
        "From a pipe.",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("",), 1, "no text in it"),
        (("x" * 100_001,), 1, "100001 bytes"),
        ((f"see {CANARY}", "--kind", "link"), 1, "http or https"),
        ((CANARY, "--kind", "video"), 2, "--kind"),
        ((), 2, "--file"),
        ((CANARY, "--file", __file__), 2, "--file"),
    ],
)
def test_what_cannot_be_saved_is_refused_without_its_text(
    run: Command, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = run("save", *arguments)
    assert (done.exit_code, words in done.stderr, CANARY in done.output) == (code, True, False), done.output
    assert run("list").stdout == "No items.\n"


def test_bytes_that_are_no_text_and_files_without_an_end_are_refused(run: Command, tmp_path: Path) -> None:
    binary, endless = tmp_path / "binary", tmp_path / "endless"
    binary.write_bytes(b"\xff\xfe\x00")
    endless.write_bytes(b"x" * 2_000_000)
    for file, words in ((binary, "UTF-8"), (endless, "1 MiB")):
        done = run("save", "--file", str(file))
        assert (done.exit_code, words in done.stderr) == (1, True), done.output


def test_unknown_items_and_moves_out_of_place_have_codes_of_their_own(run: Command, dsn: str) -> None:
    for command in ("show", "confirm", "discard", "enrich"):
        done = run(command, str(uuid4()))
        assert (done.exit_code, "penstock vault list" in done.stderr) == (3, True), done.output
    item_id = said(run("save", CANARY, "--json"))["item_id"]
    assert run("enrich", item_id).exit_code == 6
    make_ready(dsn)
    assert run("confirm", item_id).exit_code == 0
    twice = run("confirm", item_id)
    assert (twice.exit_code, "was confirmed before" in twice.stderr, CANARY in twice.output) == (6, True, False)
    assert run("show", "no-uuid").exit_code == 2
    assert run("list", "--status", "lost").exit_code == 2


def test_a_type_that_no_worker_has_served_is_told(penstock: Command, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("delete from penstock.types")
    done = penstock("vault", "save", CANARY, "--owner", ME, role="penstock_orchestrator")
    assert (done.exit_code, "start a worker" in done.stderr, CANARY in done.output) == (3, True, False), done.output


def test_the_command_knows_every_kind_and_status() -> None:
    """They are written out there, so that `penstock --help` loads no application."""
    assert (tuple(ItemKind), tuple(ItemStatus)) == (commands.KINDS, commands.STATUSES)
    assert use_cases.MOST_LISTED == 10_000
