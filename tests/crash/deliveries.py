"""`make chaos-deliveries`: 1,000 deliveries over Resend, webhooks and SMTP, and workers that die all the time.

It goes in rounds. A round starts a few workers at once, each under the login
of a worker; each dies at a named point between intent, send and mark, anywhere,
or not at all, and the emulated providers lose replies all along. Between the
rounds nobody is alive: more reviews come, time passes, and an operator replays
what has died. It is done twice: mails in doubt are sent again, or held.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, Final

import asyncpg

from penstock.apps.review import review_app
from penstock.channels.registry import Channels
from penstock.contract.crash import CrashPoint
from penstock.emulator import Emulator
from penstock.engine import dead_letters, replay
from penstock.settings import load_settings
from penstock.store import clock, types
from penstock.store.roles import OPERATOR, WORKER
from tests.apps.review.notify.made import make_review
from tests.channels.conftest import KEY
from tests.crash import deliveries_history as history
from tests.crash.campaign import ANYWHERE, Nursery
from tests.crash.deliveries_history import Count
from tests.support import servers

GAPS: Final = (
    CrashPoint.BEFORE_EFFECT_INTENT,
    CrashPoint.AFTER_EFFECT_INTENT,
    CrashPoint.AFTER_EFFECT_PERFORMED,
    CrashPoint.AFTER_EFFECT_MARKED,
)
POINTS: Final = (
    *GAPS,
    CrashPoint.AFTER_CLAIM,
    CrashPoint.MID_HANDLER,
    CrashPoint.AFTER_HANDLER,
    CrashPoint.BEFORE_RECORD,
    CrashPoint.AFTER_RECORD,
)
MAIL: Final = {"provider": "smtp", "method": "DATA"}
SCRIPT: Final[tuple[tuple[str, float, dict[str, Any]], ...]] = (
    ("drop_after", 0.06, {"provider": "resend", "method": "POST"}),
    ("drop", 0.03, {"provider": "resend", "method": "POST"}),
    ("server_error", 0.03, {"provider": "resend", "method": "POST", "act": True}),
    ("rate_limited", 0.02, {"provider": "resend"}),
    ("unavailable", 0.03, {"provider": "resend", "method": "GET"}),
    ("drop_after", 0.06, {"provider": "webhook"}),
    ("drop", 0.03, {"provider": "webhook"}),
    ("server_error", 0.03, {"provider": "webhook", "act": True}),
    ("drop_after", 0.06, MAIL),
    ("drop", 0.03, MAIL),
    ("rate_limited", 0.02, {"provider": "smtp", "method": "RCPT"}),
)
EACH: Final = 3  # recipients of a review, one on each channel
CREW: Final = 3
LEAP: Final = 420.0  # seconds: longer than a lease and than any backoff, so that everybody comes back
MANY: Final = 100  # kills, of which some must be at every gap
MOST_ROUNDS: Final = 60  # without a kill, after which everything must have ended


@dataclass
class Verdict:
    """What a campaign came to."""

    seed: int
    policy: str
    deliveries: int = 0
    kills: int = 0
    rounds: int = 0
    replays: int = 0
    at: Counter[str] = field(default_factory=Counter)
    counts: dict[str, Count] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)  # mails in doubt that a person has settled
    problems: list[str] = field(default_factory=list)


@dataclass
class Campaign:
    """One campaign under way."""

    owner: asyncpg.Connection[Any]
    operator: asyncpg.Connection[Any]
    nursery: Nursery
    emulator: Emulator
    order: dict[str, Any]
    random: Random
    verdict: Verdict

    async def feed(self, count: int) -> None:
        """*count* reviews with a recipient on every channel."""
        for _ in range(count):
            name = f"n{self.verdict.deliveries}"
            hook = self.emulator.webhook_url(name)
            to = [("resend", f"{name}@example.org"), ("smtp", f"{name}.too@example.org"), ("webhook", hook)]
            await make_review(self.owner, [(*one, True) for one in to], changelist=f"shop:{name}")
            self.verdict.deliveries += EACH

    async def due(self, deliveries: int, kills: int) -> int:
        """How many reviews come next.

        Their share of all follows the share of those who have died, and one comes when nobody has
        anything to do: who is idle passes no point to die at.
        """
        share = min(1.0, (self.verdict.kills + 1) / max(1, kills))
        missing = ceil((deliveries * share - self.verdict.deliveries) / EACH)
        return missing if missing > 0 else int(not await self.busy())

    async def round(self, *, deadly: bool) -> None:
        """Everybody once, and now and then a sweep; returns when all have ended."""
        lives = [self.live(f"w{self.verdict.rounds}-{n}", deadly=deadly) for n in range(CREW)]
        if self.random.random() < 0.25:
            lives.append(self.live("sweep", deadly=deadly, sweep=True))
        await asyncio.gather(*lives)
        self.verdict.rounds += 1

    async def between(self) -> None:
        """Time passes, and an operator looks at what has died."""
        await clock.wind(self.owner, timedelta(seconds=LEAP))
        await self._settle_held()
        letters = await self.operator.fetch("select dead_letter_id from penstock.dead_letters where state = 'open'")
        for row in letters:
            letter_id = row["dead_letter_id"]
            await dead_letters.triage(self.operator, letter_id, "transient", operator="chaos")
            await dead_letters.remediate(self.operator, letter_id, "looked at it", operator="chaos")
            await dead_letters.validate(self.operator, letter_id, "T-1", replay_safe=True, operator="chaos")
            await replay.replay(self.operator, letter_id, operator="chaos")
            self.verdict.replays += 1

    async def _settle_held(self) -> None:
        """Where doubts are held, a person looks into the mailbox and says what is there."""
        if self.verdict.policy != "hold":
            return
        rows = await self.operator.fetch(
            "select delivery_id, token from review.deliveries where status = 'reconciling' and channel = 'smtp'"
        )
        for row in rows:
            there = self.emulator.deliveries.count(row["token"]) > 0
            settle = "select review.settle_delivery($1, $2, null, 'chaos', false)"
            await self.operator.fetchval(settle, row["delivery_id"], there)
            self.verdict.held.append(f"{row['delivery_id']} {'had' if there else 'had not'} come")

    async def busy(self) -> bool:
        """Whether anybody is still to be told or to be confirmed."""
        return bool(
            await self.owner.fetchval(
                "select exists (select from penstock.jobs where finished_at is null) or "
                "exists (select from penstock.dead_letters where state = 'open') or "
                "exists (select from review.deliveries where channel = 'resend' and provider_confirmed_at is null)"
            )
        )

    async def live(self, name: str, *, deadly: bool, sweep: bool = False) -> None:
        """One process from its beginning to its end."""
        order = {**self.order, "name": name, "sweep": sweep}
        point, share = self._fate() if deadly else (None, None)
        if point is not None:
            order |= {"crash_at": str(point), "passages": self.random.choice((1, 1, 2, 3, 5))}
        status = await self.nursery.lived(order, share)
        if os.WIFSIGNALED(status):
            self.verdict.kills += 1
            self.verdict.at[str(point or ANYWHERE)] += 1
        elif status:
            self.verdict.problems.append(f"{name} ended with an error ({point})")

    def _fate(self) -> tuple[CrashPoint | None, float | None]:
        """Where this process dies, or after which share of its life."""
        if self.random.random() < 0.7:
            return self.random.choice(POINTS), None
        return None, self.random.random()


async def run(
    dsn: str, role_dsn: Callable[[str], str], log: Path, *, deliveries: int, kills: int, seed: int, policy: str,
    progress: Callable[[Verdict], None] = lambda _: None,
) -> Verdict:  # fmt: skip
    """Take *deliveries* or more through *kills* deaths, let the rest be done in peace, and check."""
    verdict = Verdict(seed, policy)
    async with AsyncExitStack() as stack:
        campaign = await _begin(stack, dsn, role_dsn, log, verdict)
        while verdict.kills < kills or verdict.deliveries < deliveries:
            await campaign.feed(await campaign.due(deliveries, kills))
            await campaign.round(deadly=verdict.kills < kills)
            await campaign.between()
            progress(verdict)
        await _finish(campaign, progress)
        verdict.counts = await history.counts(campaign.owner, campaign.emulator)
        verdict.problems += await history.violations(
            campaign.owner, campaign.emulator, log, verdict.deliveries, smtp_doubles=policy == "send_again"
        )
    return verdict


async def _begin(
    stack: AsyncExitStack, dsn: str, role_dsn: Callable[[str], str], log: Path, verdict: Verdict
) -> Campaign:
    nursery = await stack.enter_async_context(Nursery("tests.crash.deliveries_nursery"))
    emulator = await stack.enter_async_context(Emulator(mail=True, seed=verdict.seed))
    for kind, probability, settings in SCRIPT:
        emulator.faults.add(kind, probability=probability, **settings)
    owner, operator = await asyncpg.connect(dsn), await asyncpg.connect(role_dsn(OPERATOR))
    stack.push_async_callback(owner.close)
    stack.push_async_callback(operator.close)
    settings = _settings(emulator, verdict.policy)
    types_of = review_app(dsn=dsn, **settings).app.types
    await types.sync(owner, [job_type.policy for job_type in types_of])
    order = {"settings": {**settings, "dsn": role_dsn(WORKER)}, "log": str(log)}
    random = Random(verdict.seed)  # noqa: S311 - chaos that can be repeated
    return Campaign(owner, operator, nursery, emulator, order, random, verdict)


def _settings(emulator: Emulator, policy: str) -> dict[str, Any]:
    host, port = emulator.smtp_address
    settings = {
        "mail_from": "reviews@example.com", "resend_api_key": KEY, "resend_url": emulator.resend_url, "smtp_host": host,
        "smtp_port": port, "smtp_tls": "off", "smtp_when_uncertain": policy, "webhook_secret": emulator.webhook_secret,
        "webhook_allow": "127.0.0.0/8", "grace_seconds": 5,
    }  # fmt: skip
    assert Channels(load_settings(**settings)).problem("smtp") is None
    return settings


async def _finish(campaign: Campaign, progress: Callable[[Verdict], None]) -> None:
    """No more faults and no more kills: everybody must be told, and Resend must confirm it."""
    await asyncio.to_thread(campaign.emulator.faults.clear)
    for _ in range(MOST_ROUNDS):
        await campaign.between()
        await campaign.round(deadly=False)
        await campaign.live("last sweep", deadly=False, sweep=True)
        progress(campaign.verdict)
        if not await campaign.busy():
            return
    campaign.verdict.problems.append("not everybody was told in the end")


# ----------------------------------------------------------------------------- at length


def main() -> int:
    """Run both policies at length; 0 when everything holds, 1 when it does not."""
    parser = argparse.ArgumentParser(prog="make chaos-deliveries", description=__doc__)
    parser.add_argument("--deliveries", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--hold-deliveries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    return both(options.deliveries, options.hold_deliveries, options.kills, seed)


def both(count: int, hold_count: int, kills: int, seed: int) -> int:
    """Mails in doubt are sent again, then held; 0 when everything holds."""
    parts = (("send_again", count, kills), ("hold", hold_count, kills // 3))
    return max((campaign(*part, seed) for part in parts if part[1]), default=0)


def campaign(policy: str, count: int, kills: int, seed: int) -> int:
    """One campaign on a server of its own, with its verdict."""
    say(f"deliveries: {count} over Resend, webhooks and SMTP ({policy}), {kills} kills, seed {seed}")
    started = time.monotonic()
    with servers.campaign_server() as server, tempfile.TemporaryDirectory() as folder:
        verdict = asyncio.run(
            run(server.dsn, server.role_dsn, Path(folder) / "workers.log", deliveries=count, kills=kills, seed=seed,
                policy=policy, progress=_progress)
        )  # fmt: skip
    if kills >= MANY:
        verdict.problems += [f"nobody was killed at {gap}" for gap in GAPS if not verdict.at[gap]]
    _tell(verdict, time.monotonic() - started)
    return 1 if verdict.problems else 0


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _progress(verdict: Verdict) -> None:
    if verdict.rounds % 10 == 0:
        say(f"  {verdict.rounds} rounds, {verdict.kills} kills, {verdict.deliveries} deliveries")


def _tell(verdict: Verdict, seconds: float) -> None:
    say(f"{verdict.kills} killed in {verdict.rounds} rounds, {verdict.replays} replays, {seconds:.0f} s")
    for point, count in sorted(verdict.at.items()):
        say(f"  {count:5d} at {point}")
    for channel, one in verdict.counts.items():
        say(
            f"  {channel}: {one.deliveries} deliveries, {one.raw} messages, {one.ids} by their id, {one.doubled} came "
            f"again, at most {one.possible} could have by delivery_attempts"
        )
    for line in verdict.held:
        say(f"  held for a person: {line}")
    for problem in verdict.problems[:50]:
        say(f"  BROKEN: {problem}")
    if not verdict.problems:
        smtp = "0 on SMTP, doubts were held" if verdict.policy == "hold" else "those on SMTP are within its policy"
        say(f"everybody was told, 0 duplicates on Resend and 0 by id on webhooks, {smtp}: it holds")


if __name__ == "__main__":
    sys.exit(main())
