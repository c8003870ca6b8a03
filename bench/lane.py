"""`python -m bench.lane`: what the batch lane itself costs, in processor time and memory.

Three passes of 10,000 jobs each through the real `openai_responses` adapter and
the emulator, every pass in a process of its own and on an empty database:
answers that are only accepted, answers that the application stores, and answers
that make one output file of 200 MB. Bars: the engine adds less than 1 ms of its
own processor time per item, memory stays below 500 MB, no text touches the disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import asyncpg
import typer

from bench.contestant import load
from bench.lane_pass import ANSWERED, ASKED, Order, Passed
from bench.server import Server
from penstock.emulator import RemoteEmulator

ROOT: Final = Path(__file__).parents[1]
PASSES: Final = ("accepted", "stored", "large")
MEGABYTE: Final = 1_000_000
BAR_MS, BAR_MB = 1.0, 500.0


def main(
    *,
    jobs: Annotated[int, typer.Option(min=10, help="Jobs of each pass.")] = 10_000,
    megabytes: Annotated[int, typer.Option(min=1, help="Size of the large output file.")] = 200,
    only: Annotated[str, typer.Option(help=f"Passes, by comma: {', '.join(PASSES)}.")] = ",".join(PASSES),
) -> None:
    """Measure the lane and hold it against its bars; 1 when one is missed."""
    raise typer.Exit(asyncio.run(_bench(jobs, megabytes, only.split(","))))


async def _bench(jobs: int, megabytes: int, chosen: list[str]) -> int:
    home = ROOT / "build" / "lane"
    missed: list[str] = []
    async with Server(home) as server:
        for name in chosen:
            async with server.database(load("penstock")) as database:
                dsn = server.dsn(database)
                large = megabytes * MEGABYTE // jobs if name == "large" else 0
                passed = await asyncio.to_thread(measure, dsn, name, jobs, large)
                texts = await texts_in(dsn)
                spilled = await server.admin.fetchval(
                    "select temp_files from pg_stat_database where datname = $1", database
                )
            missed += tell(name, passed, texts, spilled)
    print(f"missed: {'; '.join(missed)}" if missed else "every bar is met")
    return int(bool(missed))


def measure(dsn: str, name: str, jobs: int, answer_bytes: int) -> Passed:
    """One pass against an emulator of its own."""
    with emulated(answer_bytes) as emulator:
        groups = 1 if answer_bytes else 4
        return one_pass(Order(dsn, emulator.url, jobs, groups, persists=name == "stored", alone=not answer_bytes))


def one_pass(order: Order) -> Passed:
    """One pass in a process of its own, whose temporary files would go to a directory of their own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "bench.lane_pass", json.dumps(asdict(order))]
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
        return Passed(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def emulated(answer_bytes: int) -> Iterator[RemoteEmulator]:
    """An emulator in a process of its own."""
    command = [sys.executable, "-m", "bench.lane_emulator", str(answer_bytes)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield RemoteEmulator((process.stdout.readline() if process.stdout else "").strip())
        finally:
            process.terminate()


async def texts_in(dsn: str) -> dict[str, int]:
    """Rows with a text of a request or an answer, by table; what the application stores is its own affair."""
    connection: asyncpg.Connection[Any] = await asyncpg.connect(dsn)
    try:
        tables = await connection.fetch(
            "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'penstock'"
        )
        counts = {
            table["name"]: await connection.fetchval(
                f"select count(*) from {table['name']} as r where strpos(r::text, $1) > 0 or strpos(r::text, $2) > 0",
                ASKED,
                ANSWERED,
            )
            for table in tables
        }
    finally:
        await connection.close()
    return {name: count for name, count in counts.items() if count}


def tell(name: str, passed: Passed, texts: dict[str, int], spilled: int) -> list[str]:
    """Print one pass; returns the bars it has missed."""
    whole = passed.submit_cpu + passed.collect_cpu
    own = (whole - passed.adapter_cpu) * 1000 / passed.jobs
    print(f"{name}: {passed.completed} of {passed.jobs} jobs in {passed.batches} batches, {passed.seconds:.1f} s")
    print(
        f"  per item: {whole * 1000 / passed.jobs:.3f} ms of processor time "
        f"(out {passed.submit_cpu * 1000 / passed.jobs:.3f}, back {passed.collect_cpu * 1000 / passed.jobs:.3f})"
    )
    if passed.adapter_cpu:
        alone = passed.adapter_cpu * 1000 / passed.jobs
        print(f"  adapter and SDK alone {alone:.3f} ms, so the engine adds {own:.3f} ms")
    print(f"  memory: {passed.peak_mb:.0f} MB at most, {passed.before_mb:.0f} MB of it before anything was sent")
    print(
        f"  disk: {len(passed.written)} files opened for writing, temporary directory "
        f"{'TOUCHED' if passed.temporary_touched else 'untouched'}, {spilled} temporary files of the server, "
        f"rows of ours with text: {texts or 'none'}",
        flush=True,
    )
    bars = {
        "not every job completed": passed.completed != passed.jobs,
        f"the engine adds {own:.3f} ms": bool(passed.adapter_cpu) and own >= BAR_MS,
        f"{passed.peak_mb:.0f} MB": passed.peak_mb >= BAR_MB,
        f"files: {passed.written[:3]}": bool(passed.written) or passed.temporary_touched,
        f"text in {texts}": bool(texts),
    }
    return [f"{name}: {what}" for what, missed in bars.items() if missed]


if __name__ == "__main__":
    typer.run(main)
