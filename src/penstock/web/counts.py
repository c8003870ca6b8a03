"""What the HTTP API counts, by the pattern of the route: no path, no key, no home."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

requests_total = Counter("web_requests_total", "Requests that were answered", ["method", "route", "status"])
request_seconds = Histogram("web_request_seconds", "Time to the last byte", ["method", "route"], buckets=BUCKETS)
streams_open = Gauge("web_streams_open", "Live streams that are open")
streams_ended_total = Counter("web_streams_ended_total", "Live streams that ended, by reason", ["reason"])

STREAM: Final = "/rewrites/stream"  # lasts as long as somebody looks: no time to speak of


def answered(method: str, route: str, status: int, seconds: float) -> None:
    """One request has its answer; status 0: the caller went away before it."""
    requests_total.labels(method, route, str(status)).inc()
    if route != STREAM:
        request_seconds.labels(method, route).observe(seconds)
