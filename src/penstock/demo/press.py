"""The acts of the engine: enqueue, work, kill, mend, count."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.contract.dead_letters import Cause
from penstock.demo.stage import Check
from penstock.demo.work import SHAKY, Document, Letter, Picture
from penstock.engine import bulk, dead_letters
from penstock.store import types
from penstock.store.dead_letters import Filter
from penstock.store.roles import OPERATOR, ORCHESTRATOR, WORKER

if TYPE_CHECKING:
    from penstock.demo.stage import Stage

DOCUMENTS: Final = 1500
PICTURES: Final = 240
LETTERS: Final = 600
WITHDRAWN: Final = 100  # documents of the transaction that is rolled back
CUT: Final = (311, 702, 1203)  # documents that arrive cut off
KILL_AT: Final = 0.25  # of the work done, and then as soon as letters are on their way
OPERATOR_NAME: Final = "demo"
LATEST_KILL: Final = 0.8

TABLES: Final = f"""
create schema press;
create table press.documents (document_id integer primary key, body text not null);
create table press.entries (document_id integer not null, words integer not null, different_words integer not null,
                            sha256 text not null);  -- no unique key: a document filed twice would be seen
grant usage on schema press to {WORKER}, {ORCHESTRATOR};
grant select on press.documents to {WORKER};
grant insert on press.entries to {WORKER};
grant insert on press.documents to {ORCHESTRATOR};
"""
COUNTED: Final = """
select (select count(*) from penstock.jobs where status in ('queued', 'processing')) as left_over,
       (select count(*) from penstock.jobs j where j.status in ('failed', 'canceled') and not exists
           (select from penstock.jobs r where r.replay_of_job_id = j.job_id and r.status = 'completed')) as bad,
       (select count(*) from press.entries) as entries,
       (select count(distinct document_id) from press.entries) as documents,
       (select count(*) from penstock.effects where state = 'done') as effects,
       (select count(*) from penstock.jobs where job_type = 'letter' and attempt_count > 0) as retried
"""
WORDS: Final = ("water", "gate", "turbine", "pipe", "valley", "river", "power", "stone", "bridge", "light", "winter")


async def enqueue(stage: Stage) -> list[Check]:
    """Business rows and jobs in one transaction each; one of them is rolled back."""
    stage.view.act("Act 1: business rows and their jobs, in one transaction")
    await stage.owner.execute(TABLES)
    (stage.folder / "pictures").mkdir()
    (stage.folder / "posted").touch()
    app = stage.app
    await _sync_types(stage)
    async with app.transaction() as tx:
        await tx.executemany("insert into press.documents values ($1, $2)", _documents(1, DOCUMENTS))
        await app.enqueue_many("index", [Document(n) for n in range(1, DOCUMENTS + 1)], connection=tx)
    stage.view.say(f"{DOCUMENTS} documents stored, {DOCUMENTS} jobs to index them enqueued with them")
    await app.enqueue_many("thumbnail", [Picture(n) for n in range(1, PICTURES + 1)])
    numbers = range(1, LETTERS + 1)
    for _ in range(2):  # the same request twice: the keys make it one
        await app.enqueue_many("letter", [Letter(n) for n in numbers], keys=[f"letter-{n}" for n in numbers])
    stage.view.say(f"{PICTURES} pictures to shrink; {LETTERS} letters to post, asked for twice under the same keys")
    with suppress(Withdrawn):
        await _change_of_mind(stage)
    stage.view.say(f"a transaction with {WITHDRAWN} more documents and jobs was rolled back")
    return [
        _counted(await stage.counts(), "index", DOCUMENTS, f"a rolled-back transaction leaves no job ({WITHDRAWN})")
    ]


class Withdrawn(Exception):
    """Somebody changed their mind."""


async def _change_of_mind(stage: Stage) -> None:
    numbers = range(DOCUMENTS + 1, DOCUMENTS + WITHDRAWN + 1)
    async with stage.app.transaction() as tx:
        await tx.executemany("insert into press.documents values ($1, $2)", _documents(numbers.start, WITHDRAWN))
        await stage.app.enqueue_many("index", [Document(n) for n in numbers], connection=tx)
        raise Withdrawn


async def work(stage: Stage) -> list[Check]:
    """Three processes work; one of them is killed with -9 in the middle of it."""
    stage.view.act("Act 2: three worker processes, and kill -9 in the middle")
    stage.start_workers("--concurrency", "16")
    total = DOCUMENTS + PICTURES + LETTERS
    killed = 0
    async for counts in stage.watch():
        done = counts["completed"] + counts["failed"]
        if not killed and done >= total * KILL_AT:
            killed = await _kill_one(stage, anyone=done >= total * LATEST_KILL)
        elif counts["queued"] + counts["processing"] == 0:
            break
    stage.view.still()
    taken_up = await stage.owner.fetchval("select count(*) from penstock.jobs where reclaim_count > 0")
    stage.view.say(f"all {total} jobs have ended; {taken_up} of the killed process were taken up by others")
    await _tell_doubts(stage)
    return [
        Check("a worker was killed in the middle of its work", f"{killed} jobs in its hands", killed > 0),
        Check("what it held was taken up by others", f"{taken_up} jobs", taken_up > 0),
    ]


async def _kill_one(stage: Stage, *, anyone: bool) -> int:
    """Kill the process with the most letters on their way; returns how many jobs it held, 0 when it is too early."""
    row = await stage.owner.fetchrow(
        "select w.worker_id, w.pid, count(*) as held, count(e.effect_key) as letters from penstock.workers w "
        "join penstock.jobs j on j.claimed_by = w.worker_id and j.status = 'processing' "
        "left join penstock.effects e on e.job_id = j.job_id and e.state = 'intended' "
        "where w.stopped_at is null group by w.worker_id, w.pid order by letters desc, held desc limit 1"
    )
    if row is None or not (row["letters"] or anyone):
        return 0
    os.kill(row["pid"], signal.SIGKILL)
    stage.view.say(
        f"[bold red]kill -9 {row['pid']}[/bold red]: {row['worker_id']} held {row['held']} jobs, "
        f"{row['letters']} of them letters on their way"
    )
    held: int = row["held"]
    return held


async def _tell_doubts(stage: Stage) -> None:
    rows = await stage.owner.fetch(
        "select outcome, count(*) from penstock.effect_attempts where action = 'settle' group by outcome"
    )
    found = {row["outcome"]: row["count"] for row in rows}
    if found:
        stage.view.say(
            f"{sum(found.values())} letters were in doubt, so the post office was asked: "
            f"{found.get('found', 0)} had been posted, {found.get('absent', 0)} had not"
        )


async def mend(stage: Stage) -> list[Check]:
    """The documents that were cut off are dead letters; an operator mends the data and replays them."""
    stage.view.act("Act 3: dead letters, mended and replayed")
    async with stage.logged_in(OPERATOR) as db:
        letters = await dead_letters.find(db, Filter(job_types=["index"]))
        stage.view.say(
            f"{len(letters)} dead letters, class {', '.join(sorted({x.error_class for x in letters}))}: "
            "documents that arrived cut off"
        )
        await stage.owner.execute(
            "update press.documents set body = body || ' again.' where document_id = any($1::integer[])", list(CUT)
        )
        everything = Filter(job_types=["index"])
        await bulk.bulk_triage(db, everything, Cause.DATA, operator=OPERATOR_NAME)
        await bulk.bulk_remediate(
            db, everything, "the missing ends of the documents were added", operator=OPERATOR_NAME
        )
        await bulk.bulk_validate(db, everything, "DEMO-1", replay_safe=True, operator=OPERATOR_NAME)
        replayed = await bulk.bulk_replay(db, everything, operator=OPERATOR_NAME)
        stage.view.say("triaged as data, remediated, validated, replayed from the stage that failed")
        async for counts in stage.watch():
            if counts["queued"] + counts["processing"] == 0:
                break
        stage.view.still()
        closed = await bulk.bulk_close(db, everything, "completed after the data was mended", operator=OPERATOR_NAME)
    return [
        Check("every broken document became a dead letter", f"{len(letters)} of {len(CUT)}", len(letters) == len(CUT)),
        Check("its replay completed and it was closed", f"{len(closed.done)} of {len(replayed.done)}",
              len(closed.done) == len(replayed.done) == len(CUT)),
    ]  # fmt: skip


async def count(stage: Stage) -> list[Check]:
    """Stop the workers and count in the database and in the outside world."""
    code = await stage.stop_workers()
    found = await stage.owner.fetchrow(COUNTED)
    assert found is not None  # noqa: S101 - a row of counts is always there
    posted = (stage.folder / "posted").read_text().split()
    pictures = len(list((stage.folder / "pictures").glob("*.png")))
    left, bad, entries, documents = found["left_over"], found["bad"], found["entries"], found["documents"]
    return [
        Check("every job ended well, none is lost", f"{left} left over, {bad} without a good end", left + bad == 0),
        Check("every document is filed, none twice", f"{entries} entries for {documents} of {DOCUMENTS} documents",
              entries == documents == DOCUMENTS),
        Check("every picture is drawn", f"{pictures} of {PICTURES}", pictures == PICTURES),
        Check("every letter is posted, none twice", f"{len(posted)} posted, {len(set(posted))} different, of {LETTERS}",
              len(posted) == len(set(posted)) == LETTERS),
        Check("the ledger knows every letter", f"{found['effects']} effects done", found["effects"] == LETTERS),
        Check("letters that failed were tried again", f"{found['retried']} tried again",
              found["retried"] >= LETTERS // SHAKY),
        Check("the workers stopped when told", f"exit code {code}", code == 0),
    ]  # fmt: skip


def _documents(first: int, amount: int) -> list[tuple[int, str]]:
    dice = random.Random(first)  # noqa: S311 - the same text each time, nothing secret
    bodies = (" ".join(dice.choices(WORDS, k=dice.randrange(80, 240))) for _ in range(amount))
    return [(n, body if n in CUT else f"{body}.") for n, body in enumerate(bodies, start=first)]


def _counted(jobs: dict[str, dict[str, int]], job_type: str, wanted: int, promise: str) -> Check:
    found = sum(jobs[job_type].values())
    return Check(promise, f"{found} jobs of {wanted}", found == wanted)


async def _sync_types(stage: Stage) -> None:
    """A worker would do it; here the jobs come first."""
    await types.sync(stage.owner, [job_type.policy for job_type in stage.app.types])
