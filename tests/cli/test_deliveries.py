"""`penstock deliveries`: proof for those who ask, and the word of a person for what nobody can look up."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from penstock.emulator import Emulator
from tests.support.desk import Desk
from tests.support.desks import Command

ADDRESS = "ada@example.org"


def deliver(desk: Desk, status: str = "sent", *, channel: str = "smtp", job: str = "failed", **columns: Any) -> UUID:
    """A delivery of a review whose job has ended, with its effect."""
    review_id, job_id, delivery_id, token = uuid4(), uuid4(), uuid4(), uuid4().hex * 2
    given = {"send_count": 1, "notified_at": None, "notification_id": None, **columns}
    with desk.owner.transaction():
        desk.owner.execute(
            "insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, max_attempts, "
            "audited, staged, job_type, stage, idempotency_key, payload) values (%s, penstock.now(), penstock.now(), "
            "penstock.now(), true, 0, 5, false, true, 'review_processing', 'notify', %s, %s)",
            (job_id, f"review_processing:{review_id}", json.dumps({"review_id": str(review_id)})),
        )
        desk.owner.execute(
            "insert into review.reviews (review_id, job_id, changelist_id, review_version) "
            "values (%s, %s, 'shop:1', %s)",
            (review_id, job_id, review_id.int % 1_000_000 + 1),
        )
        desk.owner.execute(
            "insert into review.recipients (review_id, recipient, channel, address) values (%s, %s, %s, %s)",
            (review_id, ADDRESS, channel, ADDRESS),
        )
        if job == "failed":
            end(desk, job_id, job)
        desk.owner.execute(
            "insert into review.deliveries (delivery_id, review_id, changelist_id, recipient, review_version, channel, "
            "address, required, promise, token, payload, status, send_count, notified_at, notification_id) "
            "select %s, review_id, changelist_id, %s, review_version, %s, %s, true, 'at_most_once', %s, 'private', %s, "
            "%s, %s, %s from review.reviews where review_id = %s",
            (delivery_id, ADDRESS, channel, ADDRESS, token, status, given["send_count"], given["notified_at"],
             given["notification_id"], review_id),
        )  # fmt: skip
        desk.owner.execute(
            "insert into penstock.effects (effect_key, kind, token, job_id, claim_seq, intended_at, state, done_at) "
            "values (%s, 'delivery', %s, %s, 1, penstock.now(), %s, %s)",
            (f"review_processing:delivery:key:{token}", token, job_id, "done" if given["notified_at"] else "intended",
             given["notified_at"]),
        )  # fmt: skip
        if job == "completed":
            end(desk, job_id, job)
    return delivery_id


def end(desk: Desk, job_id: UUID, status: str) -> None:
    """Move its job to its end."""
    desk.claim(job_id)
    desk.owner.execute(
        "update penstock.jobs set status = %s, lease_expires_at = null, finished_at = penstock.now(), "
        "last_error_code = 'NETWORK_TIMEOUT', last_error_at = penstock.now() where job_id = %s",
        (status, job_id),
    )


def row(desk: Desk, delivery_id: UUID) -> dict[str, Any]:
    return desk.row("select * from review.deliveries where delivery_id = %s", delivery_id)


def test_the_list_shows_the_proof_and_nobodys_address(desk: Desk, penstock: Command) -> None:
    sent = deliver(desk, notified_at="2026-01-02T03:04:05Z", notification_id="m-17")
    deliver(desk, "failed")
    done = penstock("deliveries", "list", "--status", "sent", "--json")
    assert done.exit_code == 0, done.output
    (shown,) = json.loads(done.stdout)
    assert (shown["delivery_id"], shown["notification_id"]) == (str(sent), "m-17")
    assert shown["notified_at"] == "2026-01-02T03:04:05+00:00"
    assert shown["provider_confirmed_at"] is None
    table = penstock("deliveries", "list").stdout
    assert "provider confirmed at" in table
    assert "notification id" in table
    assert ADDRESS not in done.stdout + table


def test_one_delivery_is_shown_with_every_call_and_without_what_was_said(desk: Desk, penstock: Command) -> None:
    delivery_id = deliver(desk)
    desk.owner.execute(
        "insert into review.delivery_attempts (delivery_id, attempt, action, outcome) "
        "values (%s, 1, 'send', 'started')",
        (delivery_id,),
    )
    done = penstock("deliveries", "show", str(delivery_id), "--json")
    shown = json.loads(done.stdout)
    assert (shown["recipient"], shown["attempts"][0]["outcome"]) == (ADDRESS, "started")
    assert "private" not in done.stdout
    assert "started" in penstock("deliveries", "show", str(delivery_id)).stdout
    assert penstock("deliveries", "show", str(uuid4())).exit_code == 3


@pytest.mark.contract("C-42", "C-45")
@pytest.mark.parametrize(
    ("seen", "status", "state"), [("--happened", "sent", "done"), ("--absent", "failed", "abandoned")]
)
def test_a_person_says_what_became_of_a_doubt(
    desk: Desk, penstock: Command, seen: str, status: str, state: str
) -> None:
    delivery_id = deliver(desk, "reconciling")
    done = penstock("deliveries", "resolve", str(delivery_id), seen, "--who", "alex", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == [{"delivery_id": str(delivery_id), "status": status, "error": None}]
    now = row(desk, delivery_id)
    assert (now["status"], now["notified_at"] is not None, now["provider_confirmed_at"]) == (
        status,
        status == "sent",
        None,
    )
    assert desk.row("select state from penstock.effects")["state"] == state
    assert desk.row("select outcome from penstock.effect_attempts")["outcome"].endswith("by alex")


def test_what_is_absent_goes_back_to_a_job_that_still_lives(desk: Desk, penstock: Command) -> None:
    delivery_id = deliver(desk, "reconciling", job="queued")
    assert penstock("deliveries", "resolve", str(delivery_id), "--absent").exit_code == 0
    assert (row(desk, delivery_id)["status"], row(desk, delivery_id)["send_count"]) == ("pending", 0)


@pytest.mark.contract("C-43")
def test_nobody_but_its_provider_says_that_a_sent_one_was_not(desk: Desk, penstock: Command) -> None:
    delivery_id = deliver(desk, notified_at="2026-01-02T03:04:05Z")
    done = penstock("deliveries", "resolve", str(delivery_id), "--absent")
    assert done.exit_code == 6
    assert "only its provider" in done.stderr
    assert row(desk, delivery_id)["status"] == "sent"


def test_one_that_is_being_sent_at_this_moment_is_left_alone(desk: Desk, penstock: Command) -> None:
    delivery_id = deliver(desk, "pending", job="queued")
    job_id = desk.row("select job_id from penstock.jobs")["job_id"]
    desk.claim(job_id)
    done = penstock("deliveries", "resolve", str(delivery_id), "--absent")
    assert done.exit_code == 6
    assert "right now" in done.stderr


def test_a_recipient_is_excused_and_the_row_says_by_whom(desk: Desk, penstock: Command) -> None:
    delivery_id, sent = deliver(desk, "failed"), deliver(desk, notified_at="2026-01-02T03:04:05Z")
    done = penstock("deliveries", "waive", str(delivery_id), str(sent), "--who", "alex")
    assert done.exit_code == 6
    assert "nobody to excuse" in done.stderr
    assert (row(desk, delivery_id)["waived_by"], row(desk, sent)["waived_by"]) == ("alex", None)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("resolve", str(UUID(int=1)), "--absent"), 3),
        (("waive", str(UUID(int=1))), 3),
        (("resolve", str(UUID(int=1))), 2),
        (("resolve", str(UUID(int=1)), "--absent", "--id", "m-1"), 2),
        (("list", "--status", "gone"), 2),
    ],
)
def test_nothing_is_resolved_by_mistake(desk: Desk, penstock: Command, arguments: tuple[str, ...], code: int) -> None:
    assert desk.dsn
    assert penstock("deliveries", *arguments).exit_code == code


@pytest.mark.parametrize("role", ["penstock_worker", "penstock_orchestrator", "penstock_frontend"])
def test_only_an_operator_excuses(desk: Desk, penstock: Command, role: str) -> None:
    delivery_id = deliver(desk, "failed")
    assert penstock("deliveries", "waive", str(delivery_id), role=role).exit_code == 6
    assert row(desk, delivery_id)["waived_by"] is None


@pytest.mark.contract("N-27", "N-29", "C-43")
def test_an_operator_has_providers_asked_at_once(
    desk: Desk, penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Emulator() as emulator:
        monkeypatch.setenv("PENSTOCK_RESEND_API_KEY", "re_reads")
        monkeypatch.setenv("PENSTOCK_MAIL_FROM", "reviews@example.org")
        monkeypatch.setenv("PENSTOCK_RESEND_URL", emulator.resend_url)
        lost = deliver(
            desk, channel="resend", notified_at="2026-01-02T03:04:05Z", notification_id="mail_x", job="completed"
        )
        desk.owner.execute(
            "insert into penstock.types (job_type, policy, stages, max_attempts) "
            "values ('review_processing', '{}', '{fetch,llm,notify}', 5)"
        )
        done = penstock("deliveries", "reconcile", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"confirmed": 0, "cleared": 1, "failed": 0, "unanswered": 0, "redelivered": 1}
    assert (row(desk, lost)["status"], row(desk, lost)["notified_at"]) == ("pending", None)
    assert desk.row("select kind from penstock.alerts")["kind"] == "ordering_violation"
    assert desk.row("select count(*) as n from penstock.jobs")["n"] == 2


def test_a_delivery_that_is_not_there_cannot_be_reconciled(penstock: Command) -> None:
    done = penstock("deliveries", "reconcile", str(uuid4()))
    assert (done.exit_code, done.stdout) == (3, "")
    assert "`penstock deliveries list` shows what is there" in done.stderr
