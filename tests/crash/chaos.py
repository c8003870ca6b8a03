"""`make chaos KILLS=1000 LANE_KILLS=500 DELIVERIES=1000 SEED=1`: the campaigns at length, each with its verdict."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash import campaign, deliveries, lane
from tests.support import servers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def main() -> int:
    """Run the campaigns; 0 when every history holds, 1 when one does not. Nothing to do leaves a campaign out."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--lane-kills", type=int, default=500)
    parser.add_argument("--deliveries", type=int, default=1000)
    parser.add_argument("--deliveries-kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    codes = []
    if options.kills:
        codes.append(_on_a_server(lambda dsn: _engine(dsn, options.kills, options.workers, seed)))
    if options.lane_kills:
        codes.append(_on_a_server(lambda dsn: _lane(dsn, options.lane_kills, seed)))
    if options.deliveries:
        codes.append(deliveries.both(options.deliveries, options.deliveries // 3, options.deliveries_kills, seed))
    return max(codes, default=0)


def _on_a_server(part: Callable[[str], int]) -> int:
    with servers.campaign_server() as server:
        return part(server.dsn)


# --------------------------------------------------------------------- engine


def _engine(dsn: str, kills: int, workers: int, seed: int) -> int:
    print(f"engine: seed {seed}, {kills} kills, {workers} workers at a time", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder) / "world"
        verdict = asyncio.run(campaign.run(dsn, world, kills=kills, seed=seed, workers=workers, progress=_say))
    seconds = time.monotonic() - started
    print(f"{verdict.kills} workers killed, {verdict.jobs} jobs, {seconds:.0f} s, seed {verdict.seed}")
    _tell_points(verdict.at)
    return _judge(
        verdict.problems, "0 jobs lost, 0 effects doubled, every job in exactly one terminal status: the history holds"
    )


def _say(verdict: campaign.Verdict) -> None:
    if verdict.kills % 50 == 0:
        print(f"  {verdict.kills} kills, {verdict.jobs} jobs", flush=True)


# ----------------------------------------------------------------------- lane


def _lane(dsn: str, kills: int, seed: int) -> int:
    print(f"batch lane: seed {seed}, {kills} kills, OpenAI, Gemini and Anthropic at the emulator", flush=True)
    started = time.monotonic()
    verdict = asyncio.run(lane.run(dsn, kills=kills, seed=seed, progress=_say_lane))
    seconds = time.monotonic() - started
    print(
        f"{verdict.kills} submitters and collectors killed in {verdict.rounds} rounds, {verdict.jobs} jobs, "
        f"{sum(verdict.batches.values())} batches ({_counts(verdict.batches)}), {seconds:.0f} s, seed {verdict.seed}"
    )
    _tell_points(verdict.at)
    print(f"  submissions in doubt: {_counts(verdict.recovered) or 'none'}")
    return _judge(
        verdict.problems,
        "never more than one live batch per submission and per job, 0 items lost, 0 outputs stored twice, 0 outputs "
        "under a wrong job, every job in exactly one terminal status: the history holds",
    )


def _say_lane(verdict: lane.Verdict) -> None:
    if verdict.rounds % 20 == 0:
        print(f"  {verdict.kills} kills, {verdict.jobs} jobs, {verdict.rounds} rounds", flush=True)


# --------------------------------------------------------------------- common


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


def _tell_points(at: Mapping[str, int]) -> None:
    for point, count in sorted(at.items()):
        print(f"  {count:5d} at {point}")


def _judge(problems: list[str], praise: str) -> int:
    if problems:
        print(f"BROKEN: {len(problems)} violations")
        for problem in problems[:50]:
            print(f"  {problem}")
        return 1
    print(praise)
    return 0


if __name__ == "__main__":
    sys.exit(main())
