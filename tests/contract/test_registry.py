"""The documents, their precedence, and the snapshot behind the MAJOR version."""

from datetime import date
from importlib.resources import files

import pytest

from penstock.contract import registry
from penstock.contract.profiles import profile
from penstock.contract.registry import DISPATCH, DOCUMENTS, EXECUTION, LANES, QUEUE, SNAPSHOTS, Standing
from penstock.contract.statuses import MOVES, Move, Status

CLAIMS = files("penstock.store") / "sql" / "claims"


def claim_statements() -> list[str]:
    return [(CLAIMS / f"{name}.sql").read_text() for name in ("take", "promote")]


@pytest.mark.contract("Q-01")
def test_the_queue_contract_is_registered_with_its_version() -> None:
    assert (QUEUE.name, QUEUE.version) == ("complaint_rewrite_queue_processing_v1", "v1.3")
    assert (QUEUE.standing, QUEUE.stability, QUEUE.scope) == ("active", "stable", "backend")
    assert QUEUE.dated == date(2026, 2, 14)


@pytest.mark.contract("A-01", "L-01")
def test_the_rewrite_contracts_are_registered_with_their_versions() -> None:
    assert (EXECUTION.name, EXECUTION.version) == ("complaint_rewrite_async_jobs_v1", "v1.4")
    assert (LANES.name, LANES.version) == ("complaint_rewrite_two_lanes_async_v1", "v1.5")
    assert {EXECUTION.dated, LANES.dated} == {date(2026, 2, 3)}


@pytest.mark.contract("D-01")
def test_the_dispatch_design_is_registered_as_under_review() -> None:
    assert (DISPATCH.name, DISPATCH.dated) == ("Job Dispatch Redesign", date(2025, 12, 29))
    assert DISPATCH.standing is Standing.DESIGN_REVIEW


@pytest.mark.contract("C-58", "D-01")
@pytest.mark.parametrize(
    ("subject", "winner"),
    [
        ("pickup", "complaint_rewrite_queue_processing_v1"),
        ("execution", "complaint_rewrite_async_jobs_v1"),
        ("lane", "complaint_rewrite_two_lanes_async_v1"),
        ("locales", "complaint_rewrite_two_lanes_async_v1"),
        ("review_failures", "Criticizer Processing Specification"),
        ("delivery", "Review Notification Processing Spec"),
        ("dispatch", "Job Dispatch Redesign"),
    ],
)
def test_on_its_own_subject_a_document_goes_before_all_others(subject: str, winner: str) -> None:
    assert registry.prevailing(subject, *DOCUMENTS).name == winner
    assert registry.prevailing(subject, *reversed(DOCUMENTS)).name == winner


@pytest.mark.contract("C-58", "D-01")
def test_elsewhere_an_active_contract_goes_before_a_paper_under_review() -> None:
    assert registry.prevailing("retention", DISPATCH, EXECUTION) is EXECUTION


@pytest.mark.contract("Q-90")
def test_the_state_machine_and_the_claim_are_those_of_this_major_version() -> None:
    assert QUEUE.major == max(SNAPSHOTS)
    assert registry.machine_digest(claim_statements()) == SNAPSHOTS[max(SNAPSHOTS)], (
        "statuses, moves or claiming rules have changed: that needs a new MAJOR version of the queue contract, "
        "with its digest added to SNAPSHOTS"
    )


@pytest.mark.contract("Q-90")
def test_a_new_move_changes_the_digest() -> None:
    resurrected = {**MOVES, (Status.FAILED, Move.REQUEUE): Status.QUEUED}

    assert registry.machine_digest(claim_statements(), resurrected) != SNAPSHOTS[1]


@pytest.mark.contract("Q-90")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("order by j.priority, j.created_at, j.job_id", "order by j.created_at, j.job_id"),
        ("j.status = 'queued' and j.ready", "j.status = 'queued'"),
        ("for update skip locked", "for update"),
        ("claimed_by = $3,", ""),
        ("j.run_at <= penstock.now()", "true"),
    ],
)
def test_another_claiming_rule_changes_the_digest(old: str, new: str) -> None:
    statements = claim_statements()
    assert any(old in statement for statement in statements)

    changed = [statement.replace(old, new) for statement in statements]

    assert registry.machine_digest(changed) != SNAPSHOTS[1]


@pytest.mark.contract("Q-90")
def test_another_wording_of_the_same_rules_keeps_the_digest() -> None:
    reworded = [f"-- a remark\n{statement}".replace(" as job", "  as  job") for statement in claim_statements()]

    assert registry.machine_digest(reworded) == SNAPSHOTS[1]


@pytest.mark.contract("Q-89")
def test_changing_a_default_touches_neither_version_nor_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = profile("prod", max_jobs_per_run=500, worker_minutes=90, retry_backoff_seconds=(5400, 21600))
    monkeypatch.setattr("penstock.contract.profiles.PROD", changed)

    assert QUEUE.version == "v1.3"
    assert registry.machine_digest(claim_statements()) == SNAPSHOTS[1]
