"""Penstock: durable AI job processing on PostgreSQL.

Importing this costs next to nothing; what is named here is loaded when it is
asked for. So a command that shows a table needs no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.contract.backoff import FullJitter, Schedule
    from penstock.contract.calls import Answer, Execution, Request, Route, Usage
    from penstock.contract.errors import (
        Cancel,
        DatabaseUnavailable,
        EffectBusy,
        EffectUncertain,
        EnqueueRefused,
        Failed,
        IdempotencyKeyReused,
        LeaseLost,
        NotPerformed,
        PenstockError,
        SettingsInvalid,
        Snooze,
    )
    from penstock.contract.failures import FailureClass
    from penstock.contract.policies import Audit, Breaker, Dispatch, Limits, Policy, Rate
    from penstock.contract.policy_options import PolicyOptions
    from penstock.contract.refresh import retry_once_refreshed
    from penstock.contract.statuses import Status
    from penstock.engine.app import Penstock
    from penstock.engine.batches.lane import LaneJob, LaneSchedule
    from penstock.engine.effects import Absent, Found
    from penstock.engine.functions import RunHandle
    from penstock.engine.job import Job
    from penstock.engine.registry import JobType
    from penstock.store.alerts import Alert
    from penstock.version import __version__

__all__ = [
    "Absent",
    "Alert",
    "Answer",
    "Audit",
    "Breaker",
    "Cancel",
    "DatabaseUnavailable",
    "Dispatch",
    "EffectBusy",
    "EffectUncertain",
    "EnqueueRefused",
    "Execution",
    "Failed",
    "FailureClass",
    "Found",
    "FullJitter",
    "IdempotencyKeyReused",
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
    "PolicyOptions",
    "Rate",
    "Request",
    "Route",
    "RunHandle",
    "Schedule",
    "SettingsInvalid",
    "Snooze",
    "Status",
    "Usage",
    "__version__",
    "retry_once_refreshed",
]

_HERE: Final[Mapping[str, str]] = {
    "FullJitter": "contract.backoff",
    "Schedule": "contract.backoff",
    "Answer": "contract.calls",
    "Execution": "contract.calls",
    "Request": "contract.calls",
    "Route": "contract.calls",
    "Usage": "contract.calls",
    "Cancel": "contract.errors",
    "DatabaseUnavailable": "contract.errors",
    "EffectBusy": "contract.errors",
    "EffectUncertain": "contract.errors",
    "EnqueueRefused": "contract.errors",
    "Failed": "contract.errors",
    "IdempotencyKeyReused": "contract.errors",
    "LeaseLost": "contract.errors",
    "NotPerformed": "contract.errors",
    "PenstockError": "contract.errors",
    "SettingsInvalid": "contract.errors",
    "Snooze": "contract.errors",
    "FailureClass": "contract.failures",
    "Audit": "contract.policies",
    "Breaker": "contract.policies",
    "Dispatch": "contract.policies",
    "Limits": "contract.policies",
    "Policy": "contract.policies",
    "Rate": "contract.policies",
    "PolicyOptions": "contract.policy_options",
    "retry_once_refreshed": "contract.refresh",
    "Status": "contract.statuses",
    "Penstock": "engine.app",
    "LaneJob": "engine.batches.lane",
    "LaneSchedule": "engine.batches.lane",
    "Absent": "engine.effects",
    "Found": "engine.effects",
    "RunHandle": "engine.functions",
    "Job": "engine.job",
    "JobType": "engine.registry",
    "Alert": "store.alerts",
    "__version__": "version",
}

if not TYPE_CHECKING:  # a name that is not there stays an error for whoever checks types
    from penstock.lazy import lazily

    __getattr__ = lazily(__name__, _HERE)


def __dir__() -> list[str]:
    return sorted(__all__)
