"""Every log line Penstock writes: one function per event, with fixed keys.

Ids, counts, codes and times only. There is no event that takes free text, so
no text of a user can get into a log. A line that would not be printed costs
one comparison.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.telemetry.logs import log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from penstock.contract.claims import Claim

_gate = logging.getLogger("penstock")


def quiet() -> bool:
    """Whether lines of a job's ordinary life are switched off."""
    return not _gate.isEnabledFor(logging.INFO)


def job_claimed(claim: Claim, worker_id: str, ids: Mapping[str, str | None]) -> None:
    """The first line of every claim (D-67)."""
    log.info(
        "job_claimed",
        job_id=str(claim.job_id),
        job_type=claim.job_type,
        attempt=claim.attempt,
        worker_id=worker_id,
        **ids,
    )


def suspect_alone(claim: Claim, worker_id: str) -> None:
    """A job whose last process ended while it held it is started, alone in this one."""
    log.info("suspect_alone", job_id=str(claim.job_id), job_type=claim.job_type, worker_id=worker_id)


def job_completed(claim: Claim, seconds: float, ids: Mapping[str, str | None]) -> None:
    """The last line of every successful claim (D-68)."""
    log.info(
        "job_completed", job_id=str(claim.job_id), job_type=claim.job_type, duration_ms=round(seconds * 1000, 3), **ids
    )


def job_failed(claim: Claim, code: str, *, will_retry: bool, ids: Mapping[str, str | None]) -> None:
    """An attempt went wrong, or the job is dead (D-69)."""
    log.warning(
        "job_failed",
        job_id=str(claim.job_id),
        job_type=claim.job_type,
        stage=claim.stage,
        attempt=claim.attempt,
        error_code=code,
        will_retry=will_retry,
        **ids,
    )


def job_requeued(claim: Claim, code: str | None, seconds: float) -> None:
    """Back to the queue without an attempt used."""
    log.info(
        "job_requeued", job_id=str(claim.job_id), job_type=claim.job_type, code=code, delay_ms=round(seconds * 1000)
    )


def lease_lost(claim: Claim) -> None:
    """The claim was superseded; its result was dropped (C-31)."""
    log.warning("lease_lost", job_id=str(claim.job_id), job_type=claim.job_type, claim_seq=claim.claim_seq)


def stale_claim_requeued(job_id: UUID, job_type: str, outcome: str) -> None:
    """The reaper ended an expired claim."""
    log.warning("stale_claim_requeued", job_id=str(job_id), job_type=job_type, outcome=outcome)


def worker_started(worker_id: str, types: list[str], concurrency: int) -> None:
    """A worker is ready."""
    log.info("worker_started", worker_id=worker_id, types=types, concurrency=concurrency)


def worker_stopping(worker_id: str, running: int, reason: str) -> None:
    """A worker takes no more work."""
    log.info("worker_stopping", worker_id=worker_id, running=running, reason=reason)


def worker_stopped(worker_id: str) -> None:
    """A worker has ended; all its claims are closed."""
    log.info("worker_stopped", worker_id=worker_id)


def listener_lost(channels: list[str], error: str, retry_seconds: float) -> None:
    """Pokes do not arrive; polling goes on."""
    log.warning("listener_lost", channels=channels, error=error, retry_seconds=retry_seconds)


def listener_ready(channels: list[str]) -> None:
    """Pokes arrive."""
    log.info("listener_ready", channels=channels)


def worker_name_awaited(worker_id: str, host: str, retry_seconds: float) -> None:
    """A name belongs to a worker elsewhere that may be dead; it is tried until its owner has been silent for long."""
    log.warning("worker_name_awaited", worker_id=worker_id, host=host, retry_seconds=retry_seconds)


def database_away(what: str, error: str, retry_seconds: float) -> None:
    """A statement could not be run; it will be tried again."""
    log.warning("database_away", what=what, error=error, retry_seconds=retry_seconds)


def breaker_opened(job_type: str, code: str) -> None:
    """A type is no longer claimed until a probe succeeds."""
    log.error("breaker_opened", job_type=job_type, error_code=code)


def breaker_closed(job_type: str) -> None:
    """A type is claimed again."""
    log.info("breaker_closed", job_type=job_type)


def handler_abandoned(claim: Claim) -> None:
    """A synchronous handler went on past its limit; its thread cannot be stopped (C-63)."""
    log.error("handler_abandoned", job_id=str(claim.job_id), job_type=claim.job_type)


def raised_after_end(claim: Claim, error: str) -> None:
    """A handler raised after `job.transaction()` had ended its stage; the end stands."""
    log.error("raised_after_end", job_id=str(claim.job_id), job_type=claim.job_type, stage=claim.stage, error=error)


def result_dropped(claim: Claim) -> None:
    """A stage returned a result after its transaction had saved another, or none; give it to `job.save`."""
    log.error("result_dropped", job_id=str(claim.job_id), job_type=claim.job_type, stage=claim.stage)


def end_refused(job_type: str, move: str, error: str) -> None:
    """The database refused to record how a job ended: a trigger of the application raised (C-62)."""
    log.error("end_refused", job_type=job_type, move=move, error=error)


def claim_dropped(claim: Claim, error: str) -> None:
    """Something that should not happen has ended a slot with this claim in hand; the reaper will take the job."""
    log.error("claim_dropped", job_id=str(claim.job_id), job_type=claim.job_type, stage=claim.stage, error=error)


def run_dropped(run_id: str, function: str, error: str) -> None:
    """The database refused the record of a run for what it holds; the ends of its jobs stand."""
    log.error("run_dropped", run_id=run_id, function=function, error=error)


def internal_error(what: str, error: str) -> None:
    """Something that should not happen, with the name of the exception only."""
    log.error("internal_error", what=what, error=error)


def part_ended(part: str, error: str) -> None:
    """A thread or task beside the main loop has ended by itself; what follows is said by the lines after this one."""
    log.error("part_ended", what=part, error=error)


def metrics_served(host: str, port: int) -> None:
    """Scrapes are answered."""
    log.info("metrics_served", host=host, port=port)


def process_started(worker_id: str, slot: int, pid: int) -> None:
    """The supervisor has started a worker process."""
    log.info("process_started", worker_id=worker_id, slot=slot, pid=pid)


def process_ended(worker_id: str, slot: int, exit_code: int, retry_seconds: float) -> None:
    """A worker process ended by itself; another one follows. A negative code is a signal."""
    log.warning("process_ended", worker_id=worker_id, slot=slot, exit_code=exit_code, retry_seconds=retry_seconds)


def process_recycled(worker_id: str, rss_bytes: int | None, retry_seconds: float) -> None:
    """A process has had its time: too much memory, or a thread that hangs."""
    rss_mb = None if rss_bytes is None else round(rss_bytes / 1024 / 1024)
    log.warning("process_recycled", worker_id=worker_id, rss_mb=rss_mb, retry_seconds=retry_seconds)


def supervisor_stopping(processes: int, reason: str) -> None:
    """The supervisor tells its processes to stop."""
    log.info("supervisor_stopping", processes=processes, reason=reason)


def dead_letter_step(dead_letter_id: UUID, step: str) -> None:
    """An operator has taken a step on a dead letter; who it was stands in its events."""
    log.info("dead_letter_step", dead_letter_id=str(dead_letter_id), step=step)


def replay_started(dead_letter_id: UUID, job_id: UUID, replay_job_id: UUID, stage: str) -> None:
    """A dead letter is being replayed by a new job."""
    log.info(
        "replay_started",
        dead_letter_id=str(dead_letter_id),
        job_id=str(job_id),
        replay_job_id=str(replay_job_id),
        stage=stage,
    )


def alert_raised(alert_id: int, kind: str, severity: str, subject: Mapping[str, object]) -> None:
    """Somebody should look (R-14). The subject holds ids and codes."""
    write = log.info if severity == "info" else log.error
    write("alert_raised", alert_id=alert_id, kind=kind, severity=severity, subject=dict(subject))


def alert_sink_failed(alert_id: int, sink: str, error: str) -> None:
    """A sink did not take an alert; it will be offered again a few times."""
    log.error("alert_sink_failed", alert_id=alert_id, sink=sink, error=error)


def rows_pruned(what: str, count: int) -> None:
    """Retention has removed rows."""
    log.info("rows_pruned", what=what, count=count)


def retention_held(what: str, asked_days: int, stored_days: int) -> None:
    """The settings ask for a shorter retention than is stored; `penstock retention set` changes that."""
    log.warning("retention_held", what=what, asked_days=asked_days, stored_days=stored_days)


def run_skipped(function: str) -> None:
    """Nothing waits for a function, so it is not started: no error (Q-82)."""
    line = f"{function} skipped: no pending items"
    log.info(line, function=function)


def run_started(run_id: UUID, function: str, trigger: str) -> None:
    """A schedule or an admin has started a function."""
    log.info("run_started", run_id=str(run_id), function=function, trigger=trigger)


def run_finished(row: Mapping[str, object], started_at: datetime, finished_at: datetime) -> None:
    """What a run came to, with all its counts (Q-77 to Q-79)."""
    counts = {name: value for name, value in row.items() if name not in ("worker_id", "seconds")}
    log.info("run_finished", started_at=started_at.isoformat(), finished_at=finished_at.isoformat(), **counts)


def function_failed(function: str, code: str) -> None:
    """A function raised; its run is over."""
    log.error("function_failed", function=function, error_code=code)


def scheduler_started(name: str, schedules: list[str]) -> None:
    """A scheduler has begun."""
    log.info("scheduler_started", scheduler=name, schedules=schedules)


def scheduler_stopping(name: str, running: int, reason: str) -> None:
    """A scheduler starts nothing more."""
    log.info("scheduler_stopping", scheduler=name, running=running, reason=reason)


def scheduler_stopped(name: str) -> None:
    """A scheduler has ended; what it ran has ended too."""
    log.info("scheduler_stopped", scheduler=name)


def ticks_missed(schedule: str, missed: int) -> None:
    """Due times passed while no scheduler ran; one run makes up for them."""
    log.warning("ticks_missed", schedule=schedule, missed=missed)


def schedule_failed(schedule: str, error: str) -> None:
    """A due schedule could neither run nor enqueue; it is tried again when its lease is over."""
    log.error("schedule_failed", schedule=schedule, error=error)


def schedule_retired(schedule: str) -> None:
    """A schedule is no longer declared; it runs no more."""
    log.info("schedule_retired", schedule=schedule)
