"""`penstock jobs`: look at jobs, put them in, cancel them, retry failed ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from penstock.cli.common import (
    ORCHESTRATOR,
    Json,
    Limit,
    Who,
    database,
    find_dsn,
    parse_json,
    print_facts,
    print_json,
    print_table,
    run,
    show,
)
from penstock.cli.each import each
from penstock.cli.exits import USAGE, fail, told
from penstock.contract.errors import StepRefused
from penstock.contract.statuses import Status

if TYPE_CHECKING:
    from penstock.store.claims import Db

app = typer.Typer(name="jobs", help="Look at jobs, put them in, cancel and retry them.", no_args_is_help=True)

COLUMNS = (
    "job_id",
    "job_type",
    "status",
    "stage",
    "attempt_count",
    "created_at",
    "run_at",
    "claimed_by",
    "last_error_code",
)
JobId = Annotated[UUID, typer.Argument(metavar="JOB_ID", show_default=False)]
JobIds = Annotated[list[UUID], typer.Argument(metavar="JOB_ID", show_default=False)]
Payload = Annotated[str, typer.Argument(help="The arguments as JSON; @file reads a file, - reads stdin.")]


@app.command("list")
def list_jobs(
    *,
    job_type: Annotated[str | None, typer.Option("--type", help="Only this type.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only this status.")] = None,
    before: Annotated[UUID | None, typer.Option(help="Only jobs older than this one, for the next page.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List jobs: queued ones in the order of claims, others the newest first."""
    run(_list(job_type, status, before, limit, as_json=as_json))


async def _list(job_type: str | None, status: Status | None, before: UUID | None, limit: int, *, as_json: bool) -> None:
    from penstock.store import listings

    async with database() as db:
        found = await listings.jobs(db, listings.JobFilter(job_type, status, before, limit))
        if not found.jobs and job_type is not None:
            await listings.require_type(db, job_type)
    rows = [{name: value for name, value in job.items() if name != "ready"} for job in found.jobs]
    show(rows, COLUMNS, as_json=as_json, empty="No such jobs.")
    if found.cut:
        typer.echo(
            f"Only the newest {listings.WALK:,} jobs were looked at; --before JOB_ID goes on from there.", err=True
        )


@app.command("show")
def show_job(
    job_id: JobId,
    *,
    payload: Annotated[bool, typer.Option("--payload", help="Show the payload too; that you did is kept.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why you open the payload; kept with your name.")] = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Show one job: its stages, its moves, its effects, its dead letter."""
    if payload and not (reason or "").strip():
        fail("Say why you open the payload: --reason TEXT. Who opened what, and why, is kept.", USAGE)
    run(_show(job_id, reason if payload else None, who, as_json=as_json))


async def _show(job_id: UUID, reason: str | None, who: str, *, as_json: bool) -> None:
    from penstock.store import audit, dead_letters, effects, jobs, listings

    async with database() as db:
        job = dict(await jobs.get(db, job_id))
        job["dead_letter_id"] = await dead_letters.of_job(db, job_id)
        stages = [dict(row) for row in await listings.stages(db, job_id)] if job["staged"] else []
        moves = await audit.trail(db, job_id)
        ledger = await effects.of_job(db, job_id)
        if reason is not None:
            job["payload"] = json.loads(await jobs.open_payload(db, job_id, reason=reason, who=who))
    parts: dict[str, Any] = {
        "stages": stages,
        "moves": moves,
        "effects": [{name: row[name] for name in EFFECT_COLUMNS} for row in ledger],
    }
    if as_json:
        print_json({**job, **parts})
    else:
        _print_job(job, parts)


EFFECT_COLUMNS = ("effect_key", "kind", "state", "perform_count", "intended_at", "done_at")
STAGE_COLUMNS = ("stage", "attempts", "first_failure_at", "last_failure_at", "finished_at")
MOVE_COLUMNS = ("at", "from_status", "to_status", "stage", "attempt", "worker_id", "code")


def _print_job(job: dict[str, Any], parts: dict[str, Any]) -> None:
    from dataclasses import asdict

    print_facts(job)
    for title, columns in (("stages", STAGE_COLUMNS), ("moves", MOVE_COLUMNS), ("effects", EFFECT_COLUMNS)):
        rows = [row if isinstance(row, dict) else asdict(row) for row in parts[title]]
        if rows:
            typer.echo(f"\n{title}")
            print_table(rows, columns)


@app.command()
def cancel(
    job_ids: JobIds,
    *,
    reason: Annotated[str | None, typer.Option(help="Why; kept with the job.")] = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Cancel jobs that have not ended; a running handler is stopped. Only operators may."""
    from penstock.store import jobs

    async def one(db: Db, job_id: UUID) -> str:
        status = await jobs.cancel(db, job_id, who=who, why=reason)
        if status != Status.CANCELED:
            raise StepRefused(f"job {job_id} is {status} and stays so: only a job that has not ended can be canceled")
        return str(status)

    run(each("job_id", job_ids, one, "status", as_json=as_json))


@app.command()
def retry(
    job_ids: JobIds,
    *,
    full_restart: Annotated[bool, typer.Option("--full-restart", help="Begin at the first stage.")] = False,
    who: Who,
    as_json: Json = False,
) -> None:
    """Run failed jobs again, as new jobs that begin at the stage that failed."""
    from penstock.engine import replay

    async def one(db: Db, job_id: UUID) -> str:
        return str(await replay.retry(db, job_id, operator=who, full_restart=full_restart))

    run(each("job_id", job_ids, one, "replay_job_id", as_json=as_json))


@app.command()
def enqueue(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", show_default=False)],
    payload: Payload = "{}",
    *,
    key: Annotated[str | None, typer.Option(help="Idempotency key: the same key is the same job.")] = None,
    delay: Annotated[float | None, typer.Option(min=0, help="Seconds until it is due.")] = None,
    priority: Annotated[int | None, typer.Option(help="Lower runs first.")] = None,
    limit_key: Annotated[str | None, typer.Option(help="The key that the type's limits count by.")] = None,
    as_json: Json = False,
) -> None:
    """Put one job in and print its id."""
    with told():
        arguments = parse_json("payload", _read(payload), as_in='{"picture_id": 42}')

    async def put() -> UUID:
        from penstock.engine.app import Penstock
        from penstock.settings import load_settings

        settings = load_settings()
        async with Penstock(await find_dsn(settings, ORCHESTRATOR)) as penstock:
            return await penstock.enqueue(
                job_type, arguments, key=key, delay=delay, priority=priority, limit_key=limit_key
            )

    job_id = run(put())
    print_json({"job_id": job_id}) if as_json else typer.echo(str(job_id))


def _read(payload: str) -> str:
    try:
        if payload == "-":
            return sys.stdin.read()
        return Path(payload[1:]).read_text() if payload.startswith("@") else payload
    except UnicodeDecodeError:
        fail("The payload is no UTF-8; write it in UTF-8.", USAGE)
