"""The other listings: workers, runs, alerts, effects, stats; as tables and as JSON."""

import json
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli import cli
from tests.support.desk import Desk
from tests.support.desks import Command
from tests.support.processes import run_penstock

LISTINGS = [
    ("jobs", "list"), ("dead", "list"), ("dead", "summary"), ("types", "list"), ("workers", "list"), ("runs", "list"),
    ("runs", "skips"), ("alerts", "list"), ("effects", "list"), ("effects", "list", "--state", "open"),
]  # fmt: skip


def rows(penstock: Command, *arguments: str) -> Any:
    done = penstock(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("listing", LISTINGS, ids=" ".join)
def test_an_empty_listing_is_a_sentence_or_an_empty_list(penstock: Command, listing: tuple[str, ...]) -> None:
    assert rows(penstock, *listing) == []
    shown = penstock(*listing)
    assert shown.exit_code == 0
    assert shown.stdout.strip().endswith((".", "`"))


def test_a_worker_leaves_its_traces_in_every_listing(desk: Desk, penstock: Command) -> None:
    worker = desk.worker("--name", "tracer", "--types", "noop,refused").ready()
    done, failed = desk.put("noop"), desk.put("refused")
    worker.wait_for("job_completed", job_id=str(done))
    worker.wait_for("job_failed", job_id=str(failed))
    (alive,) = rows(penstock, "workers", "list", "--alive")
    assert (alive["worker_id"], alive["state"], alive["types"]) == ("tracer", "alive", ["noop", "refused"])
    assert "tracer" in penstock("workers", "list").stdout
    assert worker.stop() == 0

    assert rows(penstock, "workers", "list")[0]["state"] == "stopped"
    assert rows(penstock, "workers", "list", "--alive") == []
    runs = rows(penstock, "runs", "list")
    assert sum(run["claimed_count"] for run in runs) == 2
    shown = rows(penstock, "runs", "show", next(run["run_id"] for run in runs if run["failed_count"]))
    assert shown["by_error"] == {"SCHEMA_INVALID": 1}
    assert "by error" in penstock("runs", "show", shown["run_id"]).stdout
    stats = rows(penstock, "stats")
    assert stats["failed_5_minutes"] == stats["succeeded_5_minutes"] == 1
    assert {row["job_type"]: row["dead_letters"] for row in stats["types"]} == {"noop": 0, "refused": 1}


def test_stats_tell_ready_from_later(desk: Desk, penstock: Command) -> None:
    desk.sync_types()
    desk.put("noop")
    desk.put("noop", delay="1 hour")
    desk.put("held")
    found = {row["job_type"]: row for row in rows(penstock, "stats")["types"]}
    assert (found["noop"]["ready"], found["noop"]["later"], found["held"]["ready"]) == (1, 1, 1)
    assert found["noop"]["waiting"] >= 0
    assert "noop" in penstock("stats").stdout


def test_an_alert_is_acknowledged_once(desk: Desk, penstock: Command) -> None:
    alert_id = str(
        desk.row("insert into penstock.alerts (kind, severity) values ('odd', 'page') returning alert_id")["alert_id"]
    )
    assert rows(penstock, "alerts", "list")[0]["severity"] == "page"
    assert penstock("alerts", "ack", alert_id, "--who", "ann").exit_code == 0
    assert "already" in penstock("alerts", "ack", alert_id, "--who", "bob").stdout
    assert rows(penstock, "alerts", "list") == []
    assert rows(penstock, "alerts", "list", "--all")[0]["acknowledged_by"] == "ann"
    assert penstock("alerts", "ack", "999").exit_code == 3


def test_open_effects_are_found(desk: Desk, penstock: Command) -> None:
    desk.owner.execute(
        "insert into penstock.effects (effect_key, kind, token, job_id, intended_at) "
        "values ('mail:1', 'mail', 't', gen_random_uuid(), penstock.now())"
    )
    (found,) = rows(penstock, "effects", "list", "--state", "open")
    assert (found["effect_key"], found["state"]) == ("mail:1", "intended")
    assert rows(penstock, "effects", "list", "--state", "done") == []
    assert rows(penstock, "effects", "list", "--job", found["job_id"], "--state", "open") == [found]
    assert "token" not in found


@pytest.mark.parametrize("limit", ["0", "-1", "100000", "many"])
def test_an_absurd_limit_is_wrong_usage(penstock: Command, limit: str) -> None:
    assert penstock("jobs", "list", "--limit", limit).exit_code == 2


def test_help_names_every_group_and_an_unknown_command_is_wrong_usage() -> None:
    shown = CliRunner().invoke(cli, ["--help"])
    for group in ("worker", "jobs", "dead", "types", "workers", "runs", "alerts", "effects", "stats", "db", "demo"):
        assert f" {group} " in shown.stdout
    assert CliRunner().invoke(cli, ["nope"]).exit_code == 2
    assert run_penstock(["--version"], None).stdout.startswith("penstock ")


def test_a_bug_is_told_by_frames_and_never_by_its_text(
    desk: Desk, penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ValueError("private words of a user")

    monkeypatch.setattr("penstock.store.listings.stats", broken)
    told = penstock("stats")
    assert told.exit_code == 70
    assert "ValueError" in told.stderr
    assert "private" not in told.output


def test_a_sentence_that_begins_with_an_address_leaves_it_as_it_is() -> None:
    away = {"PENSTOCK_DSN": "postgresql://somebody:secret@127.0.0.1:1/nowhere"}
    done = CliRunner().invoke(cli, ["stats"], env=away)
    assert (done.exit_code, done.stderr.partition(" ")[0]) == (4, "postgresql://somebody:***@127.0.0.1:1/nowhere")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "penstock.apps.rewrite.keyring", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    done = CliRunner().invoke(cli, ["rewrite", "keys", "new"])
    assert done.exit_code == 1
    assert "install penstock[rewrite]" in done.stderr
