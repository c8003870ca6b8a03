"""The log lines of the HTTP API: one function per event, with fixed keys.

A request is named by its id, the pattern of its route and the id of its key:
no path, no query, no header, no body. Whoever typed any of them typed text.
"""

from __future__ import annotations

from penstock.telemetry.logs import log


def web_started(host: str, port: int, scopes: list[str]) -> None:
    """Requests are answered, for these scopes."""
    log.info("web_started", host=host, port=port, scope=scopes)


def web_stopping(reason: str, streams: int) -> None:
    """No new connections; streams are ended, requests are finished."""
    log.info("web_stopping", reason=reason, streams=streams)


def web_stopped() -> None:
    """Every connection is closed."""
    log.info("web_stopped")


def request_ended(*, request_id: str, method: str, route: str, status: int, seconds: float, key_id: str | None) -> None:
    """The one line of a request; a stream gets its line when it ends."""
    log.info(
        "web_request",
        request_id=request_id,
        method=method,
        route=route,
        status=status,
        duration_ms=round(seconds * 1000, 1),
        key_id=key_id,
    )


def request_broke(request_id: str, route: str, error: str) -> None:
    """A bug: the caller got the general answer, this line has the name of the exception."""
    log.error("web_request_broke", request_id=request_id, route=route, error=error)


def rewrite_unavailable(request_id: str, error: str) -> None:
    """A rewrite was not accepted; the caller is told no more than that (R-23)."""
    log.error("rewrite_unavailable", request_id=request_id, error=error)


def stream_dropped(request_id: str, reason: str) -> None:
    """A stream was ended from this side: a slow reader, a revoked key."""
    log.warning("stream_dropped", request_id=request_id, reason=reason)
