"""`make chaos KILLS=1000 SEED=1`: the campaign at length, with its seed and its verdict."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.crash import campaign
from tests.support import clusters, servers


def main() -> int:
    """Run the campaign; 0 when the history holds, 1 when it does not."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}, {options.kills} kills, {options.workers} workers at a time", flush=True)
    server = servers.private_server()
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            verdict = asyncio.run(
                campaign.run(
                    server.dsn,
                    Path(folder) / "world",
                    kills=options.kills,
                    seed=seed,
                    workers=options.workers,
                    progress=_say,
                )
            )
    finally:
        clusters.remove_server(server.embedded)
    return _tell(verdict, time.monotonic() - started)


def _say(verdict: campaign.Verdict) -> None:
    if verdict.kills % 50 == 0:
        print(f"  {verdict.kills} kills, {verdict.jobs} jobs", flush=True)


def _tell(verdict: campaign.Verdict, seconds: float) -> int:
    print(f"{verdict.kills} workers killed, {verdict.jobs} jobs, {seconds:.0f} s, seed {verdict.seed}")
    for point, count in sorted(verdict.at.items()):
        print(f"  {count:5d} at {point}")
    if verdict.problems:
        print(f"BROKEN: {len(verdict.problems)} violations")
        for problem in verdict.problems[:50]:
            print(f"  {problem}")
        return 1
    print("0 jobs lost, 0 effects doubled, every job in exactly one terminal status: the history holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
