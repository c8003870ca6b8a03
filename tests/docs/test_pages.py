"""The pages say what the contract asks them to say, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = {"contract.md", "settings.md", "policy.md", "failures.md", "sql.md", "cli.md"}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def section(text: str, title: str) -> str:
    """What stands below a heading, up to the next of its rank."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found.group(1)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            there = (path.parent / target).resolve()
            assert there.exists() or there.name in GENERATED, target


@pytest.mark.contract("D-93")
def test_the_architecture_shows_data_model_dispatcher_and_job_flow() -> None:
    text = page("explanation/architecture.md")
    model = section(text, "Data model")
    assert all(column in model for column in ("run_at", "claimed_by", "lease_expires_at", "last_error_code"))
    assert "LISTEN" in section(text, "Dispatcher")
    assert "claim" in section(text, "Job flow")


@pytest.mark.contract("D-74")
def test_the_runbook_names_the_metrics_and_the_week() -> None:
    text = page("how-to/roll-out-notify.md")
    watched = section(text, "What to watch in that week")
    for metric in ("job_notification_received_total", "job_poll_scanned_total", "job_queue_depth"):
        assert metric in watched
    assert "one week" in text


@pytest.mark.contract("D-07")
def test_many_workers_are_guidance_and_no_other_queue_server_is_needed() -> None:
    assert "not SQS, not Redis" in section(page("how-to/scale-out.md"), "What is not here")
    dependencies = (ROOT / "pyproject.toml").read_text().partition("[dependency-groups]")[0].lower()
    assert not any(name in dependencies for name in ("redis", "boto", "celery", "kafka", "pika"))


@pytest.mark.contract("D-37", "D-89", "D-90", "D-91", "D-92")
def test_the_open_questions_of_the_dispatch_design_are_answered() -> None:
    answers = page("adr/0006-questions-left-open.md")
    for question in ("pooler", "lease of five minutes", "table of dead jobs", "Rename the table", "after the commit"):
        assert question in answers


@pytest.mark.contract("Q-04")
def test_waiting_for_the_next_run_is_documented_as_normal() -> None:
    text = page("explanation/runs-and-backpressure.md").lower()
    assert "next run" in text
    assert "left_waiting" in text or "left waiting" in text


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_names_a_machine_path_or_how_it_was_made(path: Path) -> None:
    assert not re.search(r"/work/|/root/|\.\./shared|\bLLM wrote\b|helper-\d", path.read_text())


def test_every_name_that_a_page_imports_from_penstock_is_there() -> None:
    asked = {
        name.partition(" as ")[0].strip()
        for path in PAGES
        for names in re.findall(r"^\s*from penstock import (\([^)]*\)|[^\n#(]+)", path.read_text(), re.MULTILINE)
        for name in names.strip("() \n").split(",")
        if name.strip() and "`" not in name
    }
    assert asked
    assert asked <= set(penstock.__all__)
    assert all(hasattr(penstock, name) for name in penstock.__all__)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("EnqueueRefused", "how-to/enqueue-in-your-transaction.md"),
        ("IdempotencyKeyReused", "how-to/enqueue-in-your-transaction.md"),
        ("DatabaseUnavailable", "how-to/enqueue-in-your-transaction.md"),
        ("Alert", "reference/dead-letter.md"),
    ],
)
def test_what_a_page_tells_to_catch_or_to_annotate_can_be_imported(name: str, where: str) -> None:
    assert name in page(where)
    assert hasattr(penstock, name)
