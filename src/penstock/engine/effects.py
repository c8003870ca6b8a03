"""Outside effects, at most once per key: intent, perform, mark; settle before any repeat (C-61).

The order is fixed. The intent is committed before the outside world is
touched, so a crash always leaves a trace; the mark comes after, so a mark is
always true. Between the two lies the only doubt, and it is settled by asking
the outside world, never by guessing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import EffectUncertain, LeaseLost
from penstock.contract.keys import token as make_token
from penstock.contract.payloads import encode
from penstock.store import effects as store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.running import Running
    from penstock.engine.workplace import Workplace


@dataclass(frozen=True, slots=True)
class Found:
    """The effect had happened; *result* is what performing it would have returned."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The effect has certainly not happened. Say so only on an authenticated not-found."""


Settled = Found | Absent


async def perform_effect(
    place: Workplace,
    running: Running,
    name: str,
    *,
    perform: Callable[[str], Awaitable[Any]],
    settle: Callable[[str], Awaitable[Settled]] | None,
    key: str | None = None,
    repeat_when_uncertain: bool = False,
    holds_claim: bool = False,
) -> Any:
    """Perform the effect *name* of the running job, or return what it came to before."""
    claim = running.claim
    root = claim.replay_of_job_id or claim.job_id
    effect_key = f"{claim.job_type}:{name}:{key if key is not None else root}"
    token = make_token(claim.job_type, name, key if key is not None else root)
    passing(CrashPoint.BEFORE_EFFECT_INTENT)
    intent = await store.intend(
        place.pool, place.worker_id, claim, effect_key=effect_key, kind=name, token=token, holds_claim=holds_claim
    )
    if intent is None:
        raise LeaseLost(claim.job_id)
    if intent.done:
        return None if intent.result is None else json.loads(intent.result)
    passing(CrashPoint.AFTER_EFFECT_INTENT)
    if intent.perform_count > 1:
        found = await _settle(place, effect_key, token, settle, repeat_when_uncertain=repeat_when_uncertain)
        if found is not None:
            return await _mark(place, running, effect_key, found.result)
    result = await perform(token)
    passing(CrashPoint.AFTER_EFFECT_PERFORMED)
    return await _mark(place, running, effect_key, result)


async def _settle(
    place: Workplace,
    effect_key: str,
    token: str,
    settle: Callable[[str], Awaitable[Settled]] | None,
    *,
    repeat_when_uncertain: bool,
) -> Found | None:
    """Ask whether an earlier try had happened; None: it had not, or a repeat is accepted."""
    if settle is None:
        if repeat_when_uncertain:
            await store.note(place.pool, effect_key, "settle", "repeated_unsettled")
            return None
        await store.doubt(place.pool, effect_key)
        raise EffectUncertain(
            "an earlier attempt may have performed this effect, and there is no way to look it up; "
            "pass settle=..., or repeat_when_uncertain=True to accept a possible second one"
        )
    answer = await settle(token)
    await store.note(place.pool, effect_key, "settle", "found" if isinstance(answer, Found) else "absent")
    return answer if isinstance(answer, Found) else None


async def _mark(place: Workplace, running: Running, effect_key: str, result: Any) -> Any:
    text = None if result is None else encode(result, max_bytes=running.job_type.policy.max_payload_bytes)
    if not await store.mark(place.pool, effect_key, running.claim, text):
        raise LeaseLost(running.claim.job_id)
    passing(CrashPoint.AFTER_EFFECT_MARKED)
    return result
