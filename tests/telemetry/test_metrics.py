"""The six metrics, scraped as Prometheus does it."""

import os
import signal
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.telemetry.exposition import Depths
from tests.support.desk import Desk
from tests.support.processes import WorkerProcess
from tests.telemetry.conftest import Office

Sample = tuple[str, frozenset[tuple[str, str]]]


class Scraped:
    """The samples of one scrape."""

    def __init__(self, port: int) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        self.kinds: dict[str, str] = {}
        self.samples: dict[Sample, float] = {}
        for family in text_string_to_metric_families(text):
            self.kinds[family.name] = family.type
            for sample in family.samples:
                self.samples[sample.name, frozenset(sample.labels.items())] = sample.value

    def value(self, name: str, **labels: str) -> float:
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    def since(self, before: "Scraped", name: str, **labels: str) -> float:
        return self.value(name, **labels) - before.value(name, **labels)

    def labels(self, name: str) -> set[frozenset[str]]:
        return {frozenset(key for key, _ in labels) for found, labels in self.samples if found == name}


@pytest.mark.contract("D-61", "C-54")
def test_the_depth_counts_queued_jobs_due_or_not(office: Office) -> None:
    desk = office.desk
    desk.owner.execute("update penstock.types set paused_at = now() where job_type = 'item'")
    desk.owner.execute("select pg_notify('penstock_control', '{\"gates\": true}')")
    for _ in range(3):
        desk.put("item")
    desk.put("item", delay="1 hour")
    desk.put("held", delay="1 hour")
    seen: list[Scraped] = []

    def counted() -> bool:
        seen.append(Scraped(office.port))
        return seen[-1].value("job_queue_depth", job_type="item") == 4

    desk.until(counted)  # a count is kept for a second
    found = seen[-1]
    assert found.kinds["job_queue_depth"] == "gauge"
    assert found.labels("job_queue_depth") == {frozenset({"job_type"})}
    assert found.value("job_queue_depth", job_type="held") == 1
    assert found.samples["job_queue_depth", frozenset({("job_type", "chatty")})] == 0


@pytest.mark.contract("D-62", "D-64")
def test_claims_and_the_time_in_handlers_are_counted(office: Office) -> None:
    before = Scraped(office.port)
    jobs = [office.desk.put("noop") for _ in range(3)]
    for job_id in jobs:
        office.worker.wait_for("job_completed", job_id=str(job_id))

    found = Scraped(office.port)

    assert found.kinds["job_claimed"] == "counter"
    assert found.labels("job_claimed_total") == {frozenset({"job_type", "worker_id"})}
    assert found.since(before, "job_claimed_total", job_type="noop", worker_id="scribe") == 3
    assert found.kinds["job_processing_seconds"] == "histogram"
    assert found.labels("job_processing_seconds_count") == {frozenset({"job_type"})}
    assert found.since(before, "job_processing_seconds_count", job_type="noop") == 3
    assert 0 < found.since(before, "job_processing_seconds_sum", job_type="noop") < 3


@pytest.mark.contract("D-63", "C-02", "C-54")
def test_each_end_has_its_label_and_a_retry_is_no_end(office: Office) -> None:
    worker, before = office.worker, Scraped(office.port)
    success, dead, failed = (office.desk.put(job_type) for job_type in ("flaky", "doomed", "refused"))
    worker.wait_for("job_completed", job_id=str(success))
    worker.wait_for("job_failed", job_id=str(dead), will_retry=False)
    worker.wait_for("job_failed", job_id=str(failed), will_retry=False)

    found = Scraped(office.port)

    assert found.labels("job_completed_total") == {frozenset({"job_type", "status"})}
    counted = {
        (job_type, status): found.since(before, "job_completed_total", job_type=job_type, status=status)
        for job_type in ("flaky", "doomed", "refused")
        for status in ("success", "failed", "dead")
    }
    ends = {("flaky", "success"): 1.0, ("doomed", "dead"): 1.0, ("refused", "failed"): 1.0}
    assert {pair: count for pair, count in counted.items() if count} == ends


@pytest.mark.contract("D-65")
def test_pokes_are_counted_by_channel(office: Office) -> None:
    before = Scraped(office.port)
    for _ in range(3):
        office.desk.owner.execute("select penstock.poke('penstock_jobs', 'noop')")
    job_id = office.desk.put("noop")  # one more
    office.worker.wait_for("job_completed", job_id=str(job_id))

    found = Scraped(office.port)

    assert found.labels("job_notification_received_total") == {frozenset({"channel"})}
    assert found.since(before, "job_notification_received_total", channel="penstock_jobs") == 4


@pytest.mark.contract("D-66", "C-54")
def test_polls_are_counted_the_startup_scan_included(office: Office) -> None:
    seen: list[Scraped] = [Scraped(office.port)]
    assert seen[0].value("job_poll_scanned_total") >= 1

    def polled_twice() -> bool:
        seen.append(Scraped(office.port))
        return seen[-1].since(seen[0], "job_poll_scanned_total") >= 2

    office.desk.until(polled_twice)
    assert seen[-1].labels("job_poll_scanned_total") == {frozenset()}
    assert seen[-1].kinds["job_poll_scanned"] == "counter"


@pytest.mark.contract("C-54")
def test_several_processes_count_as_one_also_after_one_of_them_died(desk: Desk, free_port: Callable[[], int]) -> None:
    port = free_port()
    crew = desk.worker(
        "--types", "noop,item", "--processes", "2", "--concurrency", "2", "--name", "crew", "--metrics-port", str(port)
    )
    crew.wait_for("worker_started", count=2)
    finish(desk, crew, 300)
    first = Scraped(port)
    assert first.value("job_completed_total", job_type="noop", status="success") == 300
    assert claimed(first) == 300
    assert first.value("job_processing_seconds_count", job_type="noop") == 300

    os.kill(crew.wait_for("process_started", worker_id="crew-1")["pid"], signal.SIGKILL)
    crew.wait_for("worker_started", count=2, worker_id="crew-1")
    finish(desk, crew, 200)

    second = Scraped(port)
    assert second.value("job_completed_total", job_type="noop", status="success") == 500
    assert claimed(second) == 500
    workers = {dict(labels)["worker_id"] for name, labels in second.samples if name == "job_claimed_total"}
    assert workers <= {"crew-1", "crew-2"}
    assert second.samples["job_queue_depth", frozenset({("job_type", "noop")})] == 0


def finish(desk: Desk, crew: WorkerProcess, count: int) -> None:
    before = len(crew.seen("job_completed"))
    desk.owner.execute("select count(penstock.enqueue('noop')) from generate_series(1, %s)", (count,))
    crew.wait_for("job_completed", count=before + count)


def claimed(found: Scraped) -> float:
    return sum(value for (name, _), value in found.samples.items() if name == "job_claimed_total")


@pytest.fixture
def ticks() -> Iterator[float]:
    return iter([0.0, 2.0, 30.0, 41.9, 42.1, 42.2])


def test_a_count_that_took_long_is_kept_for_long(desk: Desk, ticks: Iterator[float]) -> None:
    desk.sync_types()
    depths = Depths(desk.worker_dsn, clock=lambda: next(ticks))
    assert depths()["noop"] == 0  # took 2 s, so it is kept for 40
    desk.put("noop")
    assert depths()["noop"] == 0
    assert depths()["noop"] == 0
    assert depths()["noop"] == 1


def test_the_other_metrics_still_come_while_the_database_is_away() -> None:
    assert Depths("postgresql://nobody@127.0.0.1:1/nowhere")() == {}
