"""The payload of one job, put together from its rows when it is executed (C-39).

A job carries three ids. What they lead to is read under row-level security in
the home they name, and everything that stands in two places must agree, else
the job fails for good before anybody is asked (A-28, L-42).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from penstock.apps.rewrite import repository
from penstock.apps.rewrite.envelope import EnvelopeBroken
from penstock.apps.rewrite.homes import HomeErased, home_key
from penstock.apps.rewrite.keyring import TextKeyMissing
from penstock.apps.rewrite.models import RewriteJobV1
from penstock.contract.errors import Failed, Snooze
from penstock.contract.failures import FailureClass
from penstock.store.spend import alert_once

if TYPE_CHECKING:
    from penstock.apps.rewrite.application import Rewrites
    from penstock.apps.rewrite.envelope import HomeKey
    from penstock.apps.rewrite.repository import LoadedJob
    from penstock.engine.batches.lane import LaneJob

KEY_AWAY: Final = timedelta(minutes=15)  # a key that the settings lack costs time and no message


class Unit(BaseModel):
    """The stored payload: whose output it is about, and in which home. No other member, so no text (A-33)."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    rewrite_request_id: UUID
    recipient_user_id: UUID
    home_id: UUID

    @property
    def key(self) -> str:
        """What the job is known by: the unit, without the home (C-32)."""
        return f"{self.rewrite_request_id}:{self.recipient_user_id}"


async def hydrated(rewrites: Rewrites, job: LaneJob, unit: Unit) -> RewriteJobV1 | None:
    """The payload of *job*; None when its slot is filled and there is nothing left to do (A-60).

    A key that the settings do not hold is no fault of the message: somebody is
    told, and the job comes back uncharged.
    """
    try:
        return await _read(rewrites, job, unit)
    except TextKeyMissing as missing:
        key_id = missing.key_id
    async with rewrites.in_home(unit.home_id) as connection:
        await alert_once(connection, "text_key_missing", {"key_id": key_id})
    raise Snooze(KEY_AWAY)


async def _read(rewrites: Rewrites, job: LaneJob, unit: Unit) -> RewriteJobV1 | None:
    async with rewrites.in_home(unit.home_id) as connection:
        row = await repository.load_job(connection, job.job_id, unit.home_id)
        if row is None:
            raise Failed(FailureClass.PAYLOAD_REJECTED, "the home of the job has no such job")
        if row.slot_filled:
            return None
        try:
            key = await home_key(connection, rewrites.keyring, unit.home_id)
        except HomeErased:
            raise Failed(FailureClass.NOT_FOUND, "the home was erased") from None
    return payload_of(row, key, unit, job.attempt)


def payload_of(row: LoadedJob, key: HomeKey, unit: Unit, attempt: int) -> RewriteJobV1:
    """One payload of one row; anything in it that does not agree is refused for good."""
    try:
        request, preferences = row.request(key), row.preferences(key)
    except EnvelopeBroken:
        raise Failed(FailureClass.PAYLOAD_REJECTED, "what is sealed for this request does not open") from None
    held: dict[str, Any] = {name: getattr(row, name) for name in RewriteJobV1.model_fields if hasattr(row, name)}
    _agree("the unit", unit.model_dump(), held)
    _agree("what was decided", request.model_dump(include={"source_locale", "target_locale", "lane"}), held)
    if preferences != request.preferences:
        raise Failed(FailureClass.PAYLOAD_REJECTED, "the preferences of the request are not those of its snapshot")
    return RewriteJobV1(
        **{**held, "rewrite_request": request},
        execution_mode=row.routing_decision.execution_mode,
        attempt=attempt,
    )


def _agree(what: str, wanted: dict[str, Any], held: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if held[name] != value:
            raise Failed(FailureClass.PAYLOAD_REJECTED, f"{what}: {name} of the job is not that of its request")
