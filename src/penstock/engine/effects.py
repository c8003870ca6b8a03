"""Outside effects, at most once per key: intent, perform, mark; settle before any repeat (C-61).

The order is fixed. The intent is committed before the outside world is
touched, so a crash always leaves a trace; the mark comes after, so a mark is
always true. Between the two lies the only doubt, and it is settled by asking
the outside world, never by guessing.

`Effect` is one try, step by step; `perform_effect` drives it for handlers in
the event loop, `engine.bridge` for handlers in threads. What it writes goes to
a `Ledger`: the engine's own, or one of an application that keeps rows of its
own about the effect and writes both in one transaction.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from penstock.contract.classify import classify
from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import (
    EffectBusy,
    EffectUncertain,
    LeaseLost,
    NotPerformed,
    PayloadRejected,
    SettingsInvalid,
)
from penstock.contract.keys import MAX_KEY
from penstock.contract.keys import token as make_token
from penstock.contract.payloads import encode
from penstock.engine.patience import persist, uninterrupted
from penstock.store import connect
from penstock.store import effects as store
from penstock.store.effects import Intent, Standing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.ledger import Ledger
    from penstock.engine.running import Running
    from penstock.engine.workplace import Workplace

NAME: Final = re.compile(r"[a-z][a-z0-9_.-]{0,49}")
BUSY_PAUSE: Final = timedelta(seconds=2)  # until a job looks again at an effect that another one has in hand


@dataclass(frozen=True, slots=True)
class Found:
    """The effect had happened; *result* is what performing it would have returned."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The effect has certainly not happened. Say so only on an authenticated not-found."""


Settled = Found | Absent


class Effect:
    """One try of a claim at one effect."""

    __slots__ = ("_ledger", "_place", "_running", "holds_claim", "key", "kind", "token")

    def __init__(
        self,
        place: Workplace,
        running: Running,
        name: str,
        *,
        key: str | None,
        token: str | None = None,
        holds_claim: bool = False,
        ledger: Ledger = store,
    ) -> None:
        claim = running.claim
        self._place = place
        self._running = running
        self._ledger = ledger
        # A replay stands for the job it replays: what that one has done is not done again.
        about = f"key:{key}" if key is not None else f"job:{claim.replay_of_job_id or claim.job_id}"
        self.kind = _checked_name(name)
        self.key = f"{claim.job_type}:{name}:{_checked_key(about)}"
        self.token = token or make_token(claim.job_type, name, about)
        self.holds_claim = holds_claim

    async def intend(self) -> Intent:
        """Commit the intent; raises when the claim is lost or another one has the effect in hand."""
        passing(CrashPoint.BEFORE_EFFECT_INTENT)
        claim = self._running.claim
        if self._running.recorded:
            raise SettingsInvalid(
                "job.effect() comes after job.transaction() has ended the stage; perform the effect before it"
            )
        nonce = uuid4()  # a second try after a lost reply gets the answer of the first
        intent = await persist(
            "effect intent",
            lambda: self._ledger.intend(
                self._place.pool,
                self._place.worker_id,
                claim,
                effect_key=self.key,
                kind=self.kind,
                token=self.token,
                holds_claim=self.holds_claim,
                nonce=nonce,
            ),
        )
        if intent.standing is Standing.LOST:
            raise LeaseLost(claim.job_id)
        if intent.standing is Standing.BUSY:
            raise EffectBusy(BUSY_PAUSE)
        if intent.standing is not Standing.DONE:
            passing(CrashPoint.AFTER_EFFECT_INTENT)
        return intent

    async def unsettled(self, *, repeat: bool) -> None:
        """There is no way to ask about an earlier try: go on only where a repeat is accepted."""
        if repeat:
            await self._ledger.note(self._place.pool, self.key, "settle", "repeated_unsettled")
            return
        await self._ledger.doubt(self._place.pool, self.key, self._running.claim)
        raise EffectUncertain(
            "an earlier attempt may have performed this effect, and there is no way to look it up; "
            "pass settle=..., or repeat_when_uncertain=True to accept a possible second one"
        )

    async def settled(self, answer: object) -> Found | None:
        """Take the answer about an earlier try; None: it had not happened."""
        if not isinstance(answer, Found | Absent):
            raise SettingsInvalid(f"settle must return Found(...) or Absent(), not {type(answer).__name__}")
        await self._ledger.note(self._place.pool, self.key, "settle", type(answer).__name__.lower())
        return answer if isinstance(answer, Found) else None

    async def failed(self, action: str, error: BaseException) -> None:
        """Note a try that raised; a perform that has certainly not happened needs no settling later."""
        outcome = str(classify(error).error_class)
        with suppress(*connect.AWAY):  # the error of the try itself is the one to tell
            if action == "perform" and isinstance(error, NotPerformed):
                await self._ledger.disprove(self._place.pool, self.key, self._running.claim)
                outcome = f"not_performed {outcome}"
            await self._ledger.note(self._place.pool, self.key, action, outcome)

    async def mark(self, result: Any) -> Any:
        """Record that the effect has happened, also when its result cannot be kept or the handler is being stopped."""
        passing(CrashPoint.AFTER_EFFECT_PERFORMED)
        text, refusal = self._encoded(result)
        await uninterrupted(self._write_mark(text, "done" if refusal is None else "done_result_refused"))
        passing(CrashPoint.AFTER_EFFECT_MARKED)
        if refusal is not None:
            raise refusal
        return decode_result(text)

    def _encoded(self, result: Any) -> tuple[str | None, PayloadRejected | None]:
        if result is None:
            return None, None
        try:
            return encode(result, max_bytes=self._running.job_type.policy.max_payload_bytes), None
        except PayloadRejected as refusal:
            return None, refusal

    async def _write_mark(self, text: str | None, outcome: str) -> None:
        """A mark that is refused may have been made by an earlier try of this very call; else somebody took over."""
        pool, claim = self._place.pool, self._running.claim
        if await persist("effect mark", lambda: self._ledger.mark(pool, self.key, claim, text, outcome)):
            return
        if not await persist("effect mark", lambda: self._ledger.marked_by(pool, self.key, claim)):
            raise LeaseLost(claim.job_id)


async def perform_effect(
    effect: Effect,
    *,
    perform: Callable[[str], Awaitable[Any]],
    settle: Callable[[str], Awaitable[Settled]] | None,
    repeat_when_uncertain: bool = False,
) -> Any:
    """Perform *effect*, or return what it came to before."""
    intent = await effect.intend()
    if intent.standing is Standing.DONE:
        return decode_result(intent.result)
    if intent.standing is Standing.AGAIN:
        found = await _settle(effect, settle, repeat=repeat_when_uncertain)
        if found is not None:
            return await effect.mark(found.result)
    try:
        result = await perform(effect.token)
    except Exception as error:
        await effect.failed("perform", error)
        raise
    return await effect.mark(result)


async def _settle(effect: Effect, settle: Callable[[str], Awaitable[Settled]] | None, *, repeat: bool) -> Found | None:
    if settle is None:
        await effect.unsettled(repeat=repeat)
        return None
    try:
        answer = await settle(effect.token)
    except Exception as error:
        await effect.failed("settle", error)
        raise
    return await effect.settled(answer)


def decode_result(text: str | None) -> Any:
    """A stored result: the same after a crash as on the first time."""
    return None if text is None else json.loads(text)


def _checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise SettingsInvalid(
            f"effect {name[:60]!r}: use 1 to 50 lower-case letters, digits, '_', '.' or '-', beginning with a letter"
        )
    return name


def _checked_key(about: str) -> str:
    if len(about) > MAX_KEY or "\x00" in about or not about.isprintable():
        raise SettingsInvalid(f"an effect's key has at most {MAX_KEY - 4} printable characters, and no text of users")
    return about
