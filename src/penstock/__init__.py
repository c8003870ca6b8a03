"""Penstock: durable AI job processing on PostgreSQL."""

from __future__ import annotations

from penstock.contract.backoff import FullJitter, Schedule
from penstock.contract.calls import Answer, Execution, Request, Route, Usage
from penstock.contract.errors import (
    Cancel,
    EffectBusy,
    EffectUncertain,
    Failed,
    LeaseLost,
    NotPerformed,
    PenstockError,
    Snooze,
)
from penstock.contract.failures import FailureClass
from penstock.contract.policies import Audit, Breaker, Dispatch, Limits, Policy, Rate
from penstock.contract.refresh import retry_once_refreshed
from penstock.contract.statuses import Status
from penstock.engine.app import Penstock
from penstock.engine.batches.lane import LaneJob, LaneSchedule
from penstock.engine.effects import Absent, Found
from penstock.engine.functions import RunHandle
from penstock.engine.job import Job
from penstock.engine.registry import JobType
from penstock.version import VERSION

__version__ = VERSION

__all__ = [
    "Absent",
    "Answer",
    "Audit",
    "Breaker",
    "Cancel",
    "Dispatch",
    "EffectBusy",
    "EffectUncertain",
    "Execution",
    "Failed",
    "FailureClass",
    "Found",
    "FullJitter",
    "Job",
    "JobType",
    "LaneJob",
    "LaneSchedule",
    "LeaseLost",
    "Limits",
    "NotPerformed",
    "Penstock",
    "PenstockError",
    "Policy",
    "Rate",
    "Request",
    "Route",
    "RunHandle",
    "Schedule",
    "Snooze",
    "Status",
    "Usage",
    "__version__",
    "retry_once_refreshed",
]
