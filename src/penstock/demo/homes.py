"""The act of the rewrite application: two homes, forty complaints, ten languages, one batch that expires half-way.

Messages are taken as penstock_orchestrator, executed as penstock_worker and
looked at as penstock_frontend: the isolation that the closing table counts is
the database's, not the play's.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.claims import Trigger
from penstock.contract.errors import PenstockError
from penstock.contract.text_keys import KEY_BYTES, written
from penstock.demo import complaints as sample
from penstock.demo import isolation
from penstock.demo.stage import Check
from penstock.store import clock, types
from penstock.store.roles import ORCHESTRATOR, WORKER

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.apps.rewrite import Rewrites
    from penstock.demo.complaints import Complaint, Home
    from penstock.demo.stage import Stage
    from penstock.emulator import Emulator

KEY: Final = "a-key-for-the-emulator"
MODEL: Final = "gpt-5-mini"
PRICES: Final = {"currency": "USD", "models": {MODEL: {"input": "0.25", "output": "2.00"}}}  # examples
HOURS: Final = 6.0  # that a batch takes
DONE_IN_TIME: Final = 2  # of the batch that expires
SUBMITTER: Final = "rewrite_batch_submitter"
COLLECTOR: Final = "rewrite_batch_collector"


async def homes(stage: Stage) -> list[Check]:
    """Take forty messages, rewrite them at batch price, and show that no home has seen another's."""
    stage.view.act("Act 5: complaints in two homes, rewritten for one recipient each")
    try:
        from penstock.apps.rewrite import application as _  # noqa: F401 - is it there?
        from penstock.emulator import Emulator
    except ModuleNotFoundError as missing:
        stage.view.say(f"left out: {missing.name} is missing; install penstock[rewrite,emulator,openai]")
        return []
    everywhere, complaints = sample.read()
    astray = next(complaint for complaint in complaints if complaint.target == "ja")
    expired = next(complaint for complaint in complaints if complaint.recipient == "bella")
    faults = [{"kind": "expire", "provider": "openai", "text": expired.text[:40], "times": 1, "done": DONE_IN_TIME}]
    emulator = Emulator(
        finish_after=HOURS * 3600, frozen=True, answer=sample.model(complaints, astray), script={"faults": faults}
    )
    with stage.logging():
        async with emulator:
            play = await _Play.prepare(stage, emulator)
            async with play.taking.app, play.working.app:
                await play.settle_in(everywhere)
                checks = await play.take(complaints)
                checks += await play.rewrite(complaints)
                return checks + await isolation.judge(stage, play.taking, complaints, play.requests)


@dataclass
class _Play:
    """One performance of the act: the same application twice, once for each of its sides."""

    stage: Stage
    emulator: Emulator
    taking: Rewrites  # logged in as penstock_orchestrator
    working: Rewrites  # logged in as penstock_worker
    requests: dict[UUID, Complaint] = field(default_factory=dict)

    @classmethod
    async def prepare(cls, stage: Stage, emulator: Emulator) -> _Play:
        from penstock.apps.rewrite import rewrite_app

        given: dict[str, Any] = {
            "text_keys": written("demo", os.urandom(KEY_BYTES)),
            "openai_api_key": KEY,
            "prices": json.dumps(PRICES),
            "rewrite_routes": json.dumps(_routes(emulator.openai_base_url)),
            "log_level": "error",
        }
        taking, working = (rewrite_app(dsn=stage.server.url(user=role), **given) for role in (ORCHESTRATOR, WORKER))
        await types.sync(stage.owner, [job_type.policy for job_type in working.app.types])
        return cls(stage, emulator, taking, working)

    async def settle_in(self, everywhere: list[Home]) -> None:
        """People move in."""
        from penstock.apps.rewrite.homes import put_home, put_member

        for home in everywhere:
            async with self.taking.in_home(home.home_id) as connection:
                await put_home(connection, home.home_id)
                for member, locale in home.members.items():
                    await put_member(connection, home.home_id, home.user_id(member), locale)

    async def take(self, complaints: list[Complaint]) -> list[Check]:
        """Each message is classified, given its locales, sealed, stored and enqueued; nobody has been asked yet."""
        before = len(self.emulator.calls)
        for complaint in complaints:
            taken = await self.taking.submit_rewrite(
                home_id=complaint.home.home_id,
                sender_user_id=complaint.home.user_id(complaint.sender),
                recipient_user_ids=[complaint.home.user_id(complaint.recipient)],
                text=complaint.text,
                surface="direct_message" if complaint.urgent else "weekly_harmony",
                idempotency_key=f"complaint-{complaint.number}",
            )
            if taken.accepted:
                self.requests[taken.rewrite_request_id] = complaint
        lanes = await self.stage.owner.fetch(
            "select lane, count(*) from rewrite.rewrite_requests group by 1 order by 1"
        )
        told = ", ".join(f"{row['count']} {row['lane']}" for row in lanes)
        wrong = await self._wrong_sources()
        self.stage.view.say(f"{len(self.requests)} messages of two homes are sealed, stored and enqueued: {told}")
        return [
            Check("taking a message asks no provider", f"{len(self.emulator.calls) - before} calls",
                  len(self.emulator.calls) == before and len(self.requests) == len(complaints)),
            Check("every language was recognised", f"{len(complaints) - wrong} of {len(complaints)}", wrong == 0),
        ]  # fmt: skip

    async def rewrite(self, complaints: list[Complaint]) -> list[Check]:
        """Out, back, and once more for what a batch did not do in time."""
        say = self.stage.view.say
        await self._run(SUBMITTER)
        left = await self._count("penstock.jobs", "job_type = 'complaint_rewrite' and status = 'queued'")
        say(f"one run takes 25 jobs and no more: {left} wait for the next, which is no failure")
        await self._run(SUBMITTER)
        mixed = await self._mixed()
        say(f"{len(self.emulator.batches)} batches, one per pair of languages and route; {mixed} hold both homes")
        await self._pass(hours=HOURS + 1)
        await self._run(COLLECTOR)
        again = await self._count(
            "penstock.batch_items join rewrite.rewrite_jobs using (job_id)",
            "state = 'retried' and code = 'BATCH_EXPIRED'",
        )
        say(f"one batch expired: {DONE_IN_TIME} of its answers were taken, {again} jobs try again on the same route")
        await self._pass(hours=1)
        await self._run(SUBMITTER)
        await self._pass(hours=HOURS + 1)
        await self._run(COLLECTOR)
        done = await self._count("rewrite.rewrite_requests", "status = 'completed'")
        failed = await self._count("rewrite.rewrite_requests", "status = 'failed'")
        outputs = await self._count("rewrite.rewrite_outputs", "true")
        say("one answer came in a language that nobody had asked for: refused, and nothing of it was stored")
        return [
            Check("a batch that expired half-way costs nobody a rewrite", f"{again} tried again", again > 0),
            Check("every request is rewritten or failed, with one output or none",
                  f"{done} rewritten, {failed} failed, {outputs} outputs",
                  (done, failed, outputs) == (len(complaints) - 1, 1, len(complaints) - 1)),
        ]  # fmt: skip

    async def _wrong_sources(self) -> int:
        """How many messages were taken for another language than their sender's."""
        rows = await self.stage.owner.fetch(
            "select rewrite_request_id, source_locale, target_locale from rewrite.rewrite_requests"
        )
        wrong = 0
        for row in rows:
            complaint = self.requests[row["rewrite_request_id"]]
            spoken = complaint.home.members[complaint.sender].partition("-")[0]
            wrong += (row["source_locale"], row["target_locale"]) != (spoken, complaint.target)
        return wrong

    async def _mixed(self) -> int:
        """How many batches hold items of both homes."""
        found: int = await self.stage.owner.fetchval(
            "select count(*) from (select i.batch_id from penstock.batch_items i"
            " join rewrite.rewrite_jobs j using (job_id)"
            " group by i.batch_id having count(distinct j.home_id) > 1) as mixed"
        )
        return found

    async def _run(self, function: str) -> None:
        """One call of a function, as its schedule makes it."""
        done = await self.working.app.run_function(function, trigger=Trigger.SCHEDULE)
        if done.error is not None:
            raise PenstockError(f"{function} failed: {done.error}; play with --keep and look at {self.stage.log.name}")

    async def _pass(self, *, hours: float) -> None:
        self.emulator.advance(hours * 3600)
        await clock.wind(self.stage.owner, timedelta(hours=hours))

    async def _count(self, rows: str, condition: str) -> int:
        found: int = await self.stage.owner.fetchval(f"select count(*) from {rows} where {condition}")  # noqa: S608 - our own words
        return found


def _routes(address: str) -> dict[str, Any]:
    """By batch, unless somebody wrote directly: then at once, with the same code."""
    way = {
        "provider": "openai",
        "adapter_kind": "openai_responses",
        "base_url": address,
        "model": MODEL,
        "prompt_version": "v1",
        "policy_version": "v1",
        "execution_mode": "batch",
        "cache_eligible": True,
        "max_retries": 2,
    }
    urgent = {"when": {"surface": "direct_message"}, "route": {**way, "execution_mode": "async"}}
    return {"rules": [urgent], "default": way}
