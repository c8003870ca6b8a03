"""All acts in order, and the closing table."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from penstock.demo import press
from penstock.demo.batches import batches
from penstock.demo.homes import homes
from penstock.demo.reviews import reviews
from penstock.demo.stage import Check, Stage, set_up
from penstock.demo.vault import vault

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.demo.view import View

Act = Callable[[Stage], Awaitable[list[Check]]]

ACTS: Final[tuple[Act, ...]] = (press.enqueue, press.work, press.mend, press.count, batches, homes, reviews, vault)


async def play(view: View, keep: Path | None = None, acts: tuple[Act, ...] = ACTS) -> bool:
    """Perform; True when every promise was kept."""
    started = time.monotonic()
    checks: list[Check] = []
    view.act("The stage: an embedded PostgreSQL, its schema and its roles")
    async with set_up(view, keep) as stage:
        view.say(f"PostgreSQL {stage.server.binaries.version} runs in {stage.folder}, for this play alone")
        for act in acts:
            checks += await act(stage)
    view.close([(check.promise, check.found, check.kept) for check in checks])
    kept = all(check.kept for check in checks)
    took = time.monotonic() - started
    view.say("Nothing was lost, nothing was doubled." if kept else "[bold red]A promise was broken.[/bold red]")
    view.say(f"The play took {took:.0f} s.")
    return kept
