"""Log lines: the three events with their fields, and nothing but what is allowed."""

import ast
import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from penstock.contract.policies import Policy
from penstock.engine.registry import JobType, Registry
from penstock.telemetry import events, logs
from tests.telemetry.conftest import Office

CANARY = "my flatmate Zebulon never cleans the bathroom"


@pytest.mark.contract("D-67", "C-54")
def test_a_claim_is_logged_with_its_ids(office: Office) -> None:
    desk, worker = office.desk, office.worker
    job_id, other = desk.put("item", {"item_id": "item-7"}), desk.put("noop")
    line = worker.wait_for("job_claimed", job_id=str(job_id))
    assert line["item_id"] == "item-7"
    assert line["attempt"] == 1
    assert line["worker_id"] == "scribe"
    assert worker.wait_for("job_claimed", job_id=str(other))["item_id"] is None


@pytest.mark.contract("D-67", "D-69")
def test_the_second_claim_is_attempt_2_and_a_retry_is_announced(office: Office) -> None:
    desk, worker = office.desk, office.worker
    job_id = desk.put("flaky")
    failed = worker.wait_for("job_failed", job_id=str(job_id))
    assert failed["error_code"] == "NETWORK_TIMEOUT" or failed["error_code"].isupper()
    assert failed["will_retry"] is True
    assert worker.wait_for("job_claimed", job_id=str(job_id), count=2)["attempt"] == 2


@pytest.mark.contract("D-68")
def test_a_completion_is_logged_with_its_duration(office: Office) -> None:
    desk, worker = office.desk, office.worker
    job_id = desk.put("item", {"item_id": "item-8"})
    line = worker.wait_for("job_completed", job_id=str(job_id))
    assert line["item_id"] == "item-8"
    assert line["duration_ms"] >= 0


@pytest.mark.contract("D-69")
def test_a_terminal_failure_will_not_be_retried(office: Office) -> None:
    desk, worker = office.desk, office.worker
    job_id = desk.put("refused")
    line = worker.wait_for("job_failed", job_id=str(job_id))
    assert (line["error_code"], line["will_retry"]) == ("SCHEMA_INVALID", False)


@pytest.mark.contract("Q-81", "R-21")
def test_no_line_holds_a_users_text_or_an_unknown_key(office: Office) -> None:
    desk, worker = office.desk, office.worker
    for job_type in ("chatty", "doomed", "flaky"):
        desk.put(job_type, {"text": CANARY})
    ided = desk.put("item", {"item_id": CANARY})
    worker.wait_for("job_failed", job_type="chatty", will_retry=False)
    worker.wait_for("job_failed", job_type="doomed", will_retry=False)
    worker.wait_for("job_completed", job_type="flaky")
    hashed = worker.wait_for("job_completed", job_id=str(ided))["item_id"]
    worker.wait_for("internal_error", what="asyncio", error="ValueError")

    assert hashed.startswith("sha256:")
    for word in CANARY.split():
        if len(word) > 5:
            assert not [line for line in list(worker.lines) if word in line]
    for line in list(worker.lines):
        found = json.loads(line)
        assert set(found) <= logs.KEYS
        assert "dropped" not in found


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    yield io.StringIO()
    logs.reset()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.contract("R-21")
def test_a_key_that_is_not_on_the_list_is_dropped_and_counted(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream=stream)
    logs.log.info("careless", payload=CANARY, job_id="1", message=CANARY)
    (line,) = lines(stream)
    assert CANARY not in stream.getvalue()
    assert line["dropped"] == 2
    assert line["job_id"] == "1"


def test_declared_ids_are_shown_as_ids_or_hashed(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream=stream)
    Registry().add(JobType(Policy("picture"), log_ids=["picture_id"]))
    logs.log.info("one", picture_id="pic-12")
    logs.log.info("two", picture_id=CANARY)
    logs.log.info("three", picture_id=None)
    assert [line["picture_id"] for line in lines(stream)][::2] == ["pic-12", None]
    assert CANARY not in stream.getvalue()


def test_below_the_level_nothing_is_written_and_the_gate_says_so(stream: io.StringIO) -> None:
    logs.configure("warning", "json", stream=stream)
    events.worker_stopped("w")
    assert events.quiet()
    events.database_away("claim", "OSError", 1.0)
    assert [line["event"] for line in lines(stream)] == ["database_away"]
    logs.configure("info", "json", stream=stream)
    assert not events.quiet()


def test_people_get_text_and_programs_get_json(stream: io.StringIO) -> None:
    logs.configure("info", "text", stream=stream)
    events.worker_started("w-1", ["a", "b"], 100)
    assert "worker_started" in stream.getvalue()
    assert "worker_id=w-1 types=a,b concurrency=100" in stream.getvalue()


def test_a_reader_that_is_gone_does_not_stop_a_worker(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream=stream)
    stream.close()
    events.worker_stopped("w")


def test_an_application_without_structlog_hears_warnings_through_the_standard_library(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()
    with caplog.at_level(logging.INFO, logger="penstock"):
        events.worker_stopped("w-1")
        logs.log.warning("careless", payload=CANARY)
    assert [record.getMessage() for record in caplog.records] == ["worker_stopped worker_id=w-1", "careless dropped=1"]
    assert capsys.readouterr().out == ""


def test_an_application_with_its_own_structlog_gets_the_lines_and_no_unknown_key() -> None:
    with structlog.testing.capture_logs() as heard:
        events.worker_stopped("w-1")
        logs.log.warning("careless", payload=CANARY)
    structlog.reset_defaults()
    assert heard == [
        {"event": "worker_stopped", "worker_id": "w-1", "log_level": "info"},
        {"event": "careless", "dropped": 1, "log_level": "warning"},
    ]


@contextmanager
def bare_root() -> Iterator[logging.Logger]:
    """The root logger as a process of ours finds it, without the handlers that pytest sets for each phase of a test."""
    root = logging.getLogger()
    theirs, root.handlers = root.handlers, []
    try:
        yield root
    finally:
        root.handlers = theirs


@pytest.mark.contract("R-21")
def test_what_libraries_log_comes_out_with_names_only(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("asyncpg.pool", "asyncio", "some.other.library")
    refused = ConnectionRefusedError(CANARY)
    with bare_root():
        logs.configure("info", "json", stream=stream)
        for name in names:
            logging.getLogger(name).warning("lost: %s", CANARY, exc_info=refused)
            logging.getLogger(name).error(CANARY, exc_info=refused)
        logging.warning(CANARY)  # noqa: LOG015 - without a handler at the root this would install one
    expected = [
        (level, event, name, "ConnectionRefusedError")
        for name in names
        for level, event in (("warning", "library_warning"), ("error", "internal_error"))
    ]
    *written, last = [(line["level"], line["event"], line["what"], line["error"]) for line in lines(stream)]
    assert written == expected
    assert last == ("warning", "library_warning", "root", "test_what_libraries_log_comes_out_with_names_only")
    assert CANARY not in stream.getvalue()
    assert capsys.readouterr() == ("", "")


def test_handlers_of_the_application_hear_what_libraries_log_before_and_after(stream: io.StringIO) -> None:
    theirs = io.StringIO()
    with bare_root() as root:
        logs.configure("info", "json", stream=stream)
        root.addHandler(logging.StreamHandler(theirs))
        logging.getLogger("asyncpg.pool").warning("later")
        logs.reset()
        logs.configure("info", "json", stream=stream)
        logging.getLogger("asyncpg.pool").warning("before")
    assert (theirs.getvalue(), stream.getvalue()) == ("later\nbefore\n", "")


def test_a_command_writes_its_own_lines_and_leaves_the_applications_structlog_alone(stream: io.StringIO) -> None:
    with structlog.testing.capture_logs() as heard:
        logs.configure("info", "json", stream=stream)
        events.worker_stopped("w-1")
        structlog.get_logger().info("theirs")
    structlog.reset_defaults()
    assert [line["event"] for line in lines(stream)] == ["worker_stopped"]
    assert heard == [{"event": "theirs", "log_level": "info"}]


def test_every_key_of_every_event_is_on_the_list() -> None:
    tree = ast.parse(Path(events.__file__).read_text())
    used = {
        keyword.arg
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute | ast.Name) and _logs(call.func)
        for keyword in call.keywords
        if keyword.arg is not None
    }
    assert used - logs.KEYS == set(), "add the key to telemetry.logs.KEYS: it must hold ids, counts or codes"


def _logs(function: ast.Attribute | ast.Name) -> bool:
    if isinstance(function, ast.Name):
        return function.id == "write"
    return isinstance(function.value, ast.Name) and function.value.id == "log"
