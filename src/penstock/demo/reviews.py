"""The act of the review application: commits of a small repository, criticised once, everybody told once.

One mail service takes a mail and loses its reply, one receiver of webhooks is
gone. What is counted at the end is what the receivers have got, not what was
sent to them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any, Final

from rich.markup import escape

from penstock.contract.dead_letters import Cause
from penstock.contract.errors import PenstockError
from penstock.demo import shop, told
from penstock.demo.stage import PATIENCE, TICK, Check
from penstock.engine import bulk, dead_letters
from penstock.store import types
from penstock.store.dead_letters import Filter
from penstock.store.roles import OPERATOR, ORCHESTRATOR, WORKER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from penstock.apps.review import Reviews
    from penstock.demo.shop import Commit
    from penstock.demo.stage import Stage
    from penstock.emulator import Emulator, Rule

JOB_TYPE: Final = "review_processing"
MODEL: Final = "gpt-5-mini"
KEY: Final = "a-key-for-the-emulator"
MAIL_FROM: Final = "Reviews <reviews@shop.example>"
LOOPBACK: Final = "127.0.0.0/8"
CALLERS: Final = 20  # that ask for the same review at the same moment
GONE: Final = "warehouse"  # the receiver that does not exist any more
LOST_REPLY: Final = {"kind": "drop_after", "provider": "resend", "method": "POST", "path": "/emails$", "nth": 1}
OPERATOR_NAME: Final = "demo"
WANTED: Final = Filter(job_types=[JOB_TYPE])


async def reviews(stage: Stage) -> list[Check]:
    """Ask for four reviews, lose a reply, mend a receiver, and count who was told how often."""
    stage.view.act("Act 6: commits reviewed by a critic, and everybody told once")
    if shutil.which("git") is None:
        stage.view.say("left out: git is missing")
        return []
    try:
        from penstock.apps.review import application as _  # noqa: F401 - is it there?
        from penstock.emulator import Emulator, smtp  # noqa: F401 - with the mail server
    except ModuleNotFoundError as missing:
        stage.view.say(f"left out: {missing.name} is missing; install penstock[review,emulator,openai]")
        return []
    with stage.logging():
        async with Emulator(mail=True, script={"faults": [LOST_REPLY]}) as emulator:
            play = await _Play.prepare(stage, emulator)
            async with play.asking.app, play.working.app, play.worker():
                checks = [*await play.ask(), *await play.tell(), *await play.mend()]
                return checks + await told.judge(stage, emulator, play.commits, play.asked)


@dataclass
class _Play:
    """One performance of the act: the same application twice, once for each of its sides."""

    stage: Stage
    emulator: Emulator
    asking: Reviews  # logged in as penstock_orchestrator
    working: Reviews  # logged in as penstock_worker
    commits: list[Commit]
    gone: Rule
    asked: dict[UUID, Commit] = field(default_factory=dict)

    @classmethod
    async def prepare(cls, stage: Stage, emulator: Emulator) -> _Play:
        from penstock.apps.review import review_app

        commits = await asyncio.to_thread(shop.build, stage.folder / "shop.git")
        given = _settings(stage, emulator)
        asking, working = (review_app(dsn=stage.server.url(user=role), **given) for role in (ORCHESTRATOR, WORKER))
        await types.sync(stage.owner, [job_type.policy for job_type in working.app.types])
        gone = emulator.faults.add("status", provider="webhook", path=f"/{GONE}$", status=410)
        return cls(stage, emulator, asking, working, commits, gone)

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """A worker in this process, logged in as penstock_worker."""
        worker = self.working.app.worker([JOB_TYPE], dsn=self.stage.server.url(user=WORKER), name="critic")
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await running

    async def ask(self) -> list[Check]:
        """One review for each commit, however often it is asked for."""
        first, *others = self.commits
        many = await asyncio.gather(*(self._review(first) for _ in range(CALLERS)))
        for commit in others:
            await self._review(commit)
        different = len({made.review.review_id for made in many})
        self.stage.view.say(
            f"{len(self.commits)} commits of a git repository are to be reviewed; "
            "a webhook, a mail over SMTP and one over Resend tell about each"
        )
        return [
            Check("twenty requests with one key make one review", f"{different} review, "
                  f"made by {sum(made.created for made in many)} of {CALLERS}",
                  (different, sum(made.created for made in many)) == (1, 1)),
        ]  # fmt: skip

    async def tell(self) -> list[Check]:
        """Fetch, criticise and tell, until every job has ended well or badly."""
        counts = await self._until_ended()
        say = self.stage.view.say
        mail = next(each for each in self.emulator.deliveries if each.channel == "smtp")
        parsed = message_from_bytes(mail.body, policy=policy.default)
        say(f"a mail in somebody's inbox: {escape(str(parsed['Subject']))}")
        again = await self.stage.owner.fetchval("select count(*) from review.deliveries where send_count > 1")
        say(
            f"Resend took a mail and its reply was lost: {again} delivery was settled under the same key, not sent anew"
        )
        return [
            Check("a receiver that is gone costs the others nothing", f"{counts.get('failed', 0)} review failed",
                  counts == {"completed": len(self.commits) - 1, "failed": 1}),
        ]  # fmt: skip

    async def mend(self) -> list[Check]:
        """The receiver comes back; the dead letter is replayed from the stage that failed."""
        say, before = self.stage.view.say, self._questions
        async with self.stage.logged_in(OPERATOR) as db:
            letters = await dead_letters.find(db, WANTED)
            stages = ", ".join(sorted({f"{letter.stage}: {letter.error_class}" for letter in letters}))
            say(f"{len(letters)} dead letter ({stages}): a receiver of webhooks answers that it is gone")
            self.emulator.faults.rules.remove(self.gone)
            await bulk.bulk_triage(db, WANTED, Cause.AUTH_CONFIG, operator=OPERATOR_NAME)
            await bulk.bulk_remediate(db, WANTED, "the receiver was set up again", operator=OPERATOR_NAME)
            await bulk.bulk_validate(db, WANTED, "DEMO-2", replay_safe=True, operator=OPERATOR_NAME)
            replayed = await bulk.bulk_replay(db, WANTED, operator=OPERATOR_NAME)
            await self._until_ended()
            closed = await bulk.bulk_close(db, WANTED, "the receiver was told", operator=OPERATOR_NAME)
        asked = self._questions - before
        say("triaged, remediated, validated, and replayed from notify")
        return [
            Check("the dead letter was replayed and closed", f"{len(closed.done)} of {len(replayed.done)}",
                  len(letters) == len(replayed.done) == len(closed.done) == 1),
            Check("a replay from notify asks the critic nothing", f"{before} questions before, {asked} more",
                  before == len(self.commits) and asked == 0),
        ]  # fmt: skip

    async def _review(self, commit: Commit) -> Any:
        recipients = told.recipients(self.emulator, *([GONE] if commit is self.commits[-1] else []))
        made = await self.asking.create_review(
            idempotency_key=f"commit-{commit.revision}",
            changelist_id=f"shop:{commit.revision}",
            recipients=recipients,
        )
        self.asked[made.review.review_id] = commit
        return made

    @property
    def _questions(self) -> int:
        return sum(call.provider == "openai" for call in self.emulator.calls)

    async def _until_ended(self) -> dict[str, int]:
        """Wait until no job is under way; how many ended how."""
        deadline = time.monotonic() + PATIENCE
        while True:
            counts = (await self.stage.counts())[JOB_TYPE]
            self.stage.view.progress({JOB_TYPE: counts}, ())
            if not counts.get("queued", 0) + counts.get("processing", 0):
                self.stage.view.still()
                return counts
            if time.monotonic() > deadline:
                raise PenstockError(
                    f"the reviews did not end in {PATIENCE:.0f} s; play with --keep and look at {self.stage.log.name}"
                )
            await asyncio.sleep(TICK)


def _settings(stage: Stage, emulator: Emulator) -> dict[str, Any]:
    host, port = emulator.smtp_address
    return {
        "review_sources": json.dumps({"shop": {"kind": "git", "path": str(stage.folder / "shop.git")}}),
        "review_model": f"openai_responses:{MODEL}",
        "review_model_url": emulator.openai_base_url,
        "openai_api_key": KEY,
        "mail_from": MAIL_FROM,
        "resend_api_key": KEY,
        "resend_url": emulator.resend_url,
        "smtp_host": host,
        "smtp_port": port,
        "smtp_tls": "off",  # it does not leave this machine
        "webhook_secret": emulator.webhook_secret,
        "webhook_allow": LOOPBACK,
        "log_level": "error",
    }
