"""Named points at which a test may kill the process.

A point costs one comparison with None when nothing is armed. The environment
variable PENSTOCK_CRASH_AT arms one point for a whole process, and
PENSTOCK_CRASH_ONCE makes it fire on the n-th passage.
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum


class CrashPoint(StrEnum):
    """Places where a crash has been hard for some engine."""

    BEFORE_CLAIM = "before_claim"
    AFTER_CLAIM = "after_claim"
    MID_HANDLER = "mid_handler"
    AFTER_HANDLER = "after_handler"
    BEFORE_RECORD = "before_record"
    AFTER_RECORD = "after_record"
    BEFORE_EFFECT_INTENT = "before_effect_intent"
    AFTER_EFFECT_INTENT = "after_effect_intent"
    AFTER_EFFECT_PERFORMED = "after_effect_performed"
    AFTER_EFFECT_MARKED = "after_effect_marked"
    BEFORE_TRANSACTION_COMMIT = "before_transaction_commit"
    AFTER_TRANSACTION_COMMIT = "after_transaction_commit"
    AFTER_STAGE_SAVED = "after_stage_saved"
    BEFORE_REAP = "before_reap"
    AFTER_REAP = "after_reap"
    BEFORE_SCHEDULE_RUN = "before_schedule_run"
    AFTER_SCHEDULE_CLAIM = "after_schedule_claim"
    BEFORE_REPLAY_COMMIT = "before_replay_commit"
    AFTER_BATCH_POLL = "after_batch_poll"
    AFTER_BATCH_DOWNLOAD = "after_batch_download"
    BEFORE_ITEM_COMMIT = "before_item_commit"
    AFTER_ITEM_COMMIT = "after_item_commit"
    AFTER_BATCH_COLLECTED = "after_batch_collected"
    BEFORE_BATCH_INTENT = "before_batch_intent"
    AFTER_BATCH_INTENT = "after_batch_intent"
    AFTER_BATCH_UPLOAD = "after_batch_upload"
    AFTER_BATCH_CREATE = "after_batch_create"
    AFTER_BATCH_MARK = "after_batch_mark"


_armed: CrashPoint | None = None
_passages = 0


def arm(point: CrashPoint | None, passages: int = 1) -> None:
    """Kill this process at the *passages*-th passage of *point*; None disarms."""
    global _armed, _passages  # noqa: PLW0603 - one process has one fate
    _armed = point
    _passages = passages


def arm_from_environment() -> None:
    """Arm what PENSTOCK_CRASH_AT names; unset means never."""
    name = os.environ.get("PENSTOCK_CRASH_AT")
    if name:
        arm(CrashPoint(name), int(os.environ.get("PENSTOCK_CRASH_ONCE", "1")))


def passing(point: CrashPoint) -> None:
    """Die here, as by kill -9, when *point* is armed."""
    if _armed is None or point is not _armed:
        return
    global _passages  # noqa: PLW0603 - one process has one fate
    _passages -= 1
    if _passages <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
