"""How log lines leave the process: JSON lines on stderr, or text on a terminal (R-21).

Only keys of the allow-list get out, so an event that somebody writes
carelessly cannot carry a user's text. Ids that a job type declares as its own
(`log_ids`) get out too, in a form that shows an id and hides anything else.

The commands call `configure`. An application that runs a worker inside itself
has its own say: its structlog gets the lines, or else the standard library's
logger `penstock`. structlog is never imported here: a process that does not
use it is spared 0.07 s and 5 MB.

What libraries log in a process of ours, a pool that has lost its server for
one, comes out in the same form: the name of the logger and the type of the
exception.
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from penstock.telemetry.contexts import opaque_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    Line = dict[str, Any]

# Every key that a line may carry. A line with another one loses it and says so in `dropped`.
KEYS: Final = frozenset({
    "timestamp", "level", "event", "dropped",
    "job_id", "job_type", "item_id", "stage", "attempt", "claim_seq", "run_id", "replay_of_job_id", "dead_letter_id",
    "worker_id", "slot", "pid", "processes", "concurrency", "types", "channels", "schedule", "function", "trigger",
    "error_code", "code", "error", "what", "outcome", "reason", "will_retry", "alert_id", "kind", "severity",
    "duration_ms", "delay_ms", "retry_seconds", "running", "count", "host", "port", "exit_code", "rss_mb",
    "started_at", "finished_at", "max_jobs_per_run", "max_runtime_seconds", "claimed_count", "succeeded_count",
    "failed_count", "requeued_count", "canceled_count", "lost_count", "rate_limited_count", "left_waiting_count",
    "by_model", "by_error", "profile", "missed", "missed_count", "step", "move", "replay_job_id", "subject", "sink",
    "schedules", "scheduler", "batch_id", "batch_item_index", "items", "body_bytes", "breaker_opened",
    "request_id", "method", "route", "status", "key_id", "scope", "streams", "asked_days", "stored_days",
})  # fmt: skip
ITEM: Final = "item_id"  # comes from the payload, as all ids that types declare do
_FIRST: Final = ("timestamp", "level", "event")
_LONGEST: Final = 500
_NUMBERS: Final = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}

_ids: set[str] = set()  # names that job types declare as opaque ids of their own


class Log:
    """Where events go; every line passes the allow-list, whoever prints it."""

    def debug(self, event: str, **fields: Any) -> None:
        """Details."""
        _write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """The ordinary life of jobs and workers."""
        _write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something went wrong and is taken care of."""
        _write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Somebody should look."""
        _write("error", event, fields)


log: Final = Log()


def allow_ids(names: Iterable[str]) -> None:
    """Let members of payloads that a type declares as opaque ids into the lines about its jobs."""
    _ids.update(names)


def _write(level: str, event: str, fields: dict[str, Any]) -> None:
    if _output is not None:
        _output.write(level, event, fields)
        return
    if (theirs := _their_structlog()) is not None:
        getattr(theirs.get_logger("penstock"), level)(event, **only_allowed(fields))
        return
    logger, number = logging.getLogger("penstock"), _NUMBERS[level]
    if logger.isEnabledFor(number):
        logger.log(number, "%s %s", event, _words(only_allowed(fields)))


def _their_structlog() -> ModuleType | None:
    """The application's structlog: one that nobody has imported and configured is none."""
    found = sys.modules.get("structlog")
    return found if found is not None and found.is_configured() else None


def configure(level: str, style: str = "auto", *, stream: TextIO | None = None) -> None:
    """Send the events of this process to *stream* (stderr); below *level* they cost one comparison.

    *style* is `json`, `text`, or `auto`: text when the stream is a terminal.
    """
    global _output  # noqa: PLW0603 - a process has one log
    target = stream or sys.stderr
    threshold = _NUMBERS[level.lower()]
    logging.getLogger("penstock").setLevel(threshold)
    as_text = style == "text" or (style == "auto" and target.isatty())
    _output = _Output(threshold, _as_text if as_text else _as_json, target)
    _hush_others()


def reset() -> None:
    """Leave the events to the application again, as before `configure`."""
    global _output  # noqa: PLW0603 - a process has one log
    _output = None
    logging.getLogger().removeHandler(_names)
    logging.getLogger("penstock").setLevel(logging.NOTSET)


def only_allowed(line: dict[str, Any]) -> dict[str, Any]:
    """Drop what is not on the list; what a type calls its ids is shown as an id or hashed."""
    kept: dict[str, Any] = {}
    dropped = 0
    for key, value in line.items():
        if key in _ids or key == ITEM:
            kept[key] = None if value is None else opaque_id(value)
        elif key in KEYS:
            kept[key] = _bounded(value)
        else:
            dropped += 1
    if dropped:
        kept["dropped"] = dropped
    return kept


def _bounded(value: object) -> object:
    match value:
        case str():
            return value[:_LONGEST]
        case None | bool() | int() | float():
            return value
        case list() | tuple():
            return [_bounded(member) for member in value]
        case dict():
            return {str(name)[:100]: _bounded(member) for name, member in value.items()}
        case _:
            return str(value)[:_LONGEST]


@dataclass(frozen=True)
class _Output:
    """Where the lines of a command go, and in which form."""

    threshold: int
    render: Callable[[Line], str]
    stream: TextIO

    def write(self, level: str, event: str, fields: Line) -> None:
        """Write one line at once, so that lines of several processes do not mix.

        A reader that has gone away must not stop a worker.
        """
        if _NUMBERS[level] < self.threshold:
            return
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = self.render({"timestamp": stamp, "level": level, "event": event, **only_allowed(fields)})
        try:
            self.stream.write(line + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            return


_output: _Output | None = None  # none before `configure`: the application has its say


def _as_json(line: Line) -> str:
    return json.dumps(line, ensure_ascii=False)


def _as_text(line: Line) -> str:
    rest = _words({key: value for key, value in line.items() if key not in _FIRST})
    return f"{line['timestamp'][11:23]} {line['level']:<7} {line['event']:<20} {rest}".rstrip()


def _words(fields: dict[str, Any]) -> str:
    return " ".join(f"{key}={_word(value)}" for key, value in fields.items() if value is not None)


def _word(value: object) -> str:
    return ",".join(str(member) for member in value) if isinstance(value, list) else str(value)


class _Names(logging.Handler):
    """What libraries report, as an event with names only: their texts and tracebacks repeat messages of exceptions.

    It stands on the root logger, where records end up that nobody else wants.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Log who spoke and the type of the exception; a handler that the application adds later speaks instead."""
        if logging.getLogger().handlers != [self]:
            return
        kind = record.exc_info[0] if record.exc_info else None
        error = kind.__name__ if kind else record.funcName
        if record.levelno >= logging.ERROR:
            log.error("internal_error", what=record.name, error=error)
        else:
            log.warning("library_warning", what=record.name, error=error)


_names: Final = _Names(logging.WARNING)


def _hush_others() -> None:
    """Unless the application has set up a handler of its own for what libraries say."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_names)
