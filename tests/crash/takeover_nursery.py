"""The cast of a take-over, each a process: pollers and producers of before, pollers of 004, workers of the engine."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg

from penstock import Job, Penstock
from penstock.contract.contract_types import enrichment
from tests.apps.vault.takeover import statements as say
from tests.crash import nursery

IDLE: Final = 0.01  # seconds that a poller waits when there is nothing to do
FLAKY: Final = 16  # of 256 items fail at their first attempt
HOLD: Final = "select from penstock.jobs where job_id = $1 and claim_seq = $2 and status = 'processing' for update"
LOOK: Final = "select status from vault.items where id = {} for update"
STORE: Final = "update vault.items set status = 'READY_TO_CONFIRM', enrichment = '{{}}' where id = {}"
NOTE: Final = "insert into public.effects (item_id, made_by) values ({}, {})"


class _Stop:
    """Whether this process was told to end.

    An `Event` that a signal handler sets waits for itself for ever when the
    signal comes while the same thread looks at it.
    """

    told = False

    def tell(self, *_: object) -> None:
        """End soon."""
        self.told = True

    def wait(self, seconds: float) -> bool:
        """Wait so long, and say whether it was told."""
        time.sleep(seconds)
        return self.told


_stop = _Stop()


def child(order: dict[str, Any]) -> None:
    """Live as what the order says, until told to stop; an error that nobody expects is written down."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, _stop.tell)
    try:
        LIVES[order["kind"]](order)
    except Exception as error:
        with Path(order["log"]).open("a") as log:
            log.write(json.dumps({"kind": order["kind"], "error": f"{type(error).__name__}: {error}"[:300]}) + "\n")
        raise


def connect(order: dict[str, Any]) -> psycopg.Connection[Any]:
    """A session that finds the outbox by its bare name."""
    return psycopg.connect(order["dsn"], autocommit=True, options=f"-c search_path={order['schema']}")


def poll_as_before(order: dict[str, Any]) -> None:
    """Seven columns, no lease: on the table and on the view alike."""
    with connect(order) as db:
        while not _stop.told:
            row = db.execute(say.OLD_CLAIM).fetchone()
            if row is None:
                _stop.wait(IDLE)
            elif row[1].bytes[0] < FLAKY and row[2] == 0:
                db.execute(say.OLD_RETRY, {"job_id": row[0], "error": "flaky"})
            else:
                finish(db, row[0], row[1], "before")


def poll_as_004(order: dict[str, Any]) -> None:
    """Name, lease and time to run at: on the view alone; while there is a table it waits."""
    with connect(order) as db:
        while not _stop.told:
            try:
                row = db.execute(say.CLAIM, {"worker_id": order["name"]}).fetchone()
            except psycopg.errors.UndefinedColumn:
                row = None
            if row is None:
                _stop.wait(IDLE)
            else:
                finish(db, row[0], row[1], "004")


def finish(db: psycopg.Connection[Any], job_id: Any, item_id: Any, who: str) -> None:
    """The item and the end of its row, in one transaction."""
    with db.transaction():
        (status,) = db.execute(LOOK.format("%s"), [item_id]).fetchone() or (None,)
        if status == "ENRICHING":
            db.execute(STORE.format("%s"), [item_id])
            db.execute(NOTE.format("%s", "%s"), [item_id, who])
        db.execute(say.OLD_DONE, {"job_id": job_id})


def produce(order: dict[str, Any]) -> None:
    """An item and its row, in one transaction, over and over."""
    with connect(order) as db:
        while not _stop.wait(IDLE):
            row = {"id": uuid4(), "item_id": uuid4()}
            with db.transaction():
                db.execute(
                    "insert into vault.items (id, owner_id, kind, content) values (%(item_id)s, %(id)s, 'note', 'x')",
                    row,
                )
                db.execute(say.OLD_INSERT, row)
                db.execute(
                    "insert into public.ledger (id, item_id, status) values (%(id)s, %(item_id)s, 'PENDING')", row
                )


def work(order: dict[str, Any]) -> None:
    """A worker of the engine."""
    asyncio.run(_work(order))


async def _work(order: dict[str, Any]) -> None:
    app = Penstock(order["dsn"], poll_seconds=1, grace_seconds=5)
    policy = enrichment()
    given = {one.name: getattr(policy, one.name) for one in fields(policy) if one.name != "job_type"}

    @app.job(policy.job_type, **given)
    async def enrich(job: Job, args: dict[str, Any]) -> None:
        async with job.transaction() as connection:
            await connection.execute(HOLD, job.job_id, job.claim_seq)  # job, then item: as everybody who ends one
            if await connection.fetchval(LOOK.format("$1"), args["item_id"]) == "ENRICHING":
                await connection.execute(STORE.format("$1"), args["item_id"])
                await connection.execute(NOTE.format("$1", "$2"), args["item_id"], "engine")

    worker = app.worker(dsn=order["dsn"], name=order["name"], concurrency=5, insecure=True)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


LIVES: Final = {"before": poll_as_before, "004": poll_as_004, "producer": produce, "engine": work}


if __name__ == "__main__":
    nursery.main(child)
