"""`penstock jobs` in the words and exit codes its user sees."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from penstock.store.roles import OPERATOR, ROLES
from tests.support.desk import Desk
from tests.support.desks import Command

OTHERS = sorted(set(ROLES) - {OPERATOR})


@pytest.fixture(autouse=True)
def _types(desk: Desk) -> None:
    desk.sync_types()


def listed(penstock: Command, *options: str) -> list[dict[str, Any]]:
    done = penstock("jobs", "list", "--json", *options)
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_an_enqueued_job_is_there_and_its_id_is_printed(desk: Desk, penstock: Command) -> None:
    done = penstock("jobs", "enqueue", "noop", '{"n": 1}', "--key", "one", role="penstock_orchestrator")
    assert done.exit_code == 0, done.output
    job = desk.job(UUID(done.stdout.strip()))
    assert (job["status"], job["payload"]) == ("queued", {"n": 1})

    again = penstock("jobs", "enqueue", "noop", '{"n": 1}', "--key", "one", "--json", role="penstock_orchestrator")
    assert json.loads(again.stdout) == {"job_id": str(job["job_id"])}


def test_a_payload_comes_from_a_file_or_from_stdin_too(desk: Desk, penstock: Command, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"from": "file"}')
    first = penstock("jobs", "enqueue", "noop", f"@{tmp_path}/payload.json", role="penstock_orchestrator")
    second = penstock("jobs", "enqueue", "noop", "-", role="penstock_orchestrator", stdin='{"from": "stdin"}')
    found = [desk.job(UUID(done.stdout.strip()))["payload"]["from"] for done in (first, second)]
    assert found == ["file", "stdin"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nope"], 3, "'nope' is not registered"),
        (["noop", "{broken"], 2, "no JSON"),
        (["noop", "@/no/such/file"], 1, "/no/such/file"),
        (["noop", '{"secret": "\\u0000"}'], 1, "NUL"),
        (["noop", "[" * 100_000], 1, "nested"),
        (["noop", "--delay", "-1"], 2, "--delay"),
        (["noop", '{"secret": 2}', "--key", "known"], 1, "other arguments"),
    ],
)
def test_what_cannot_be_enqueued_is_refused_whole(
    desk: Desk, penstock: Command, arguments: list[str], code: int, words: str
) -> None:
    desk.put("noop", {"secret": 1}, key="known")
    done = penstock("jobs", "enqueue", *arguments, role="penstock_orchestrator")
    assert done.exit_code == code, done.output
    assert words in done.stderr
    assert "secret" not in done.stderr
    assert desk.row("select count(*) from penstock.jobs")["count"] == 1


def test_jobs_are_listed_by_type_and_status(desk: Desk, penstock: Command) -> None:
    queued, later, other = desk.put("noop"), desk.put("noop", delay="1 hour"), desk.put("held")
    desk.owner.execute("select penstock.cancel(%s, 'me', 'because')", (other,))

    assert [row["job_id"] for row in listed(penstock, "--status", "queued")] == [str(queued), str(later)]
    assert [row["job_id"] for row in listed(penstock, "--type", "held")] == [str(other)]
    assert [row["job_id"] for row in listed(penstock, "--status", "canceled")] == [str(other)]
    assert listed(penstock, "--status", "processing") == listed(penstock, "--status", "failed") == []
    assert {row["job_id"] for row in listed(penstock)} == {str(queued), str(later), str(other)}
    assert str(queued) in penstock("jobs", "list").stdout


def test_queued_jobs_are_listed_in_the_order_of_claims(desk: Desk, penstock: Command) -> None:
    calm, urgent = desk.put("noop"), desk.put("noop", priority=-5)
    assert [row["job_id"] for row in listed(penstock, "--status", "queued")] == [str(urgent), str(calm)]


def test_pages_follow_each_other(desk: Desk, penstock: Command) -> None:
    jobs = sorted((str(desk.put("noop")) for _ in range(5)), reverse=True)
    first = [row["job_id"] for row in listed(penstock, "--limit", "2")]
    second = [row["job_id"] for row in listed(penstock, "--limit", "2", "--before", first[-1])]
    assert first + second == jobs[:4]


def test_a_listing_that_stopped_early_says_so(desk: Desk, penstock: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.store.listings.WALK", 3)
    for _ in range(5):
        desk.put("noop")
    done = penstock("jobs", "list", "--type", "held")
    assert "--before" in done.stderr
    assert "--before" not in penstock("jobs", "list", "--limit", "3").stderr


def test_a_listing_never_holds_payloads(desk: Desk, penstock: Command) -> None:
    desk.put("noop", {"text": "private words"})
    for status in ("queued", "processing", "failed", "completed"):
        assert "private" not in penstock("jobs", "list", "--json", "--status", status).output
    assert "private" not in penstock("jobs", "list", "--json").output


@pytest.mark.contract("C-68")
def test_one_job_is_shown_whole_but_its_payload_only_to_who_says_why(desk: Desk, penstock: Command) -> None:
    job_id = desk.put("noop", {"text": "private words"})
    shown = penstock("jobs", "show", str(job_id))
    assert shown.exit_code == 0, shown.output
    assert "queued" in shown.stdout
    assert "private" not in shown.stdout
    found = json.loads(penstock("jobs", "show", str(job_id), "--json").stdout)
    assert "payload" not in found
    for silent in ((), ("--reason", " ")):
        refused = penstock("jobs", "show", str(job_id), "--json", "--payload", *silent)
        assert refused.exit_code == 2
        assert "--reason" in refused.stderr
        assert "private" not in refused.output
    trace = "select db_user, actor, subject ->> 'job_id' as job_id, reason from penstock.operator_events"
    assert desk.owner.execute(trace).fetchall() == []

    told = ("--payload", "--reason", "ticket 12", "--who", "ann")
    found = json.loads(penstock("jobs", "show", str(job_id), "--json", *told).stdout)
    assert found["payload"] == {"text": "private words"}
    assert desk.owner.execute(trace).fetchall() == [
        {"db_user": OPERATOR, "actor": "ann", "job_id": str(job_id), "reason": "ticket 12"}
    ]
    assert found["moves"] == found["effects"] == found["stages"] == []


@pytest.mark.parametrize(
    "command", [("jobs", "show"), ("jobs", "cancel"), ("jobs", "retry"), ("runs", "show"), ("dead", "show")]
)
def test_what_is_not_there_is_told_with_3(penstock: Command, command: tuple[str, ...]) -> None:
    job_id = str(uuid4())
    done = penstock(*command, job_id)
    assert done.exit_code == 3, done.output
    assert job_id in done.stderr


def test_a_type_nobody_knows_is_told_with_3(penstock: Command) -> None:
    done = penstock("jobs", "list", "--type", "nope")
    assert done.exit_code == 3
    assert "penstock types list" in done.stderr


@pytest.mark.contract("Q-16")
@pytest.mark.parametrize("role", OTHERS)
def test_only_an_operator_cancels(desk: Desk, penstock: Command, role: str) -> None:
    job_id = desk.put("noop")

    refused = penstock("jobs", "cancel", str(job_id), role=role)

    assert refused.exit_code == 6, refused.output
    assert "penstock_operator" in refused.stderr
    assert desk.status(job_id) == "queued"
    assert penstock("jobs", "cancel", str(job_id), "--who", "ann", "--reason", "double").exit_code == 0
    assert desk.status(job_id) == "canceled"
    assert desk.job(job_id)["last_error_message"] == "canceled by ann: double"


@pytest.mark.contract("C-06")
def test_what_has_ended_cannot_be_canceled_and_the_others_are(desk: Desk, penstock: Command) -> None:
    ended, other = desk.put("noop"), desk.put("noop")
    desk.complete(ended)

    done = penstock("jobs", "cancel", str(ended), str(other), "--json")

    assert done.exit_code == 6
    assert [row["status"] for row in json.loads(done.stdout)] == [None, "canceled"]
    assert f"{ended} is completed" in done.stderr
    assert desk.status(ended) == "completed"
    assert penstock("jobs", "cancel", str(other)).exit_code == 0


def test_only_failed_jobs_are_retried(desk: Desk, penstock: Command) -> None:
    job_id = desk.put("noop")
    done = penstock("jobs", "retry", str(job_id))
    assert done.exit_code == 6
    assert "queued" in done.stderr


def test_a_failed_job_of_a_plain_type_is_retried_by_its_id(desk: Desk, penstock: Command) -> None:
    job_id, _ = desk.fail("refused")
    done = penstock("jobs", "retry", str(job_id), "--who", "ann", "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    replay = desk.job(UUID(row["replay_job_id"]))
    assert (replay["status"], replay["replay_of_job_id"]) == ("queued", job_id)
    assert desk.status(job_id) == "failed"
    assert json.loads(penstock("jobs", "list", "--status", "failed", "--json").stdout)[0]["job_id"] == str(job_id)
