"""Spans, where OpenTelemetry is installed and a provider is set; nothing otherwise."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from penstock.contract.claims import Claim

_tracer: Any = None


def enable() -> bool:
    """Begin to trace; False when OpenTelemetry is not installed (extra `tracing`)."""
    global _tracer  # noqa: PLW0603 - one process has one tracer
    try:
        from opentelemetry import trace
    except ImportError:
        return False
    _tracer = trace.get_tracer("penstock")
    return True


def enabled() -> bool:
    """Whether spans are made."""
    return _tracer is not None


def job_span(claim: Claim) -> AbstractContextManager[Any]:
    """A span around one call of a handler; ids only."""
    if _tracer is None:
        return nullcontext()
    span: AbstractContextManager[Any] = _tracer.start_as_current_span(
        f"job {claim.job_type}",
        record_exception=False,  # its message could hold text of a user
        attributes={
            "penstock.job_id": str(claim.job_id),
            "penstock.stage": claim.stage,
            "penstock.attempt": claim.attempt,
        },
    )
    return span
