"""The phases of rolling out NOTIFY on a running vault, and where its workers stand.

A phase is two settings, which `PENSTOCK_VAULT_PHASE` sets together: when an
enqueue pokes, and how long the fallback poll pauses. Going forward and back is
a restart with another number; items that arrive meanwhile wait in the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.apps.vault.models import JOB_TYPE
from penstock.apps.vault.statements import sql
from penstock.settings.vault import DISPATCH
from penstock.store.workers import ALIVE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from penstock.settings import Settings
    from penstock.store.claims import Db

OPEN: Final = "after_commit"  # pokes inside the transaction count as pokes too
RAISED: Final = 3  # from here on two phases differ in nothing that a setting says


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of the roll-out: what is done, what is looked at before the next one, and the way back."""

    number: int
    does: str
    watch: tuple[str, ...]
    back: str

    @property
    def notify(self) -> str:
        """When an enqueue pokes."""
        return str(DISPATCH[self.number]["notify"])

    @property
    def poll_seconds(self) -> float:
        """The pause between fallback polls."""
        return float(DISPATCH[self.number]["poll_seconds"])


PHASES: Final = (
    Phase(
        1,
        "the poll alone: NOTIFY off, every 2 s",
        ("job_queue_depth", "job_poll_scanned_total", "job_completed_total"),
        "stop the workers and run `penstock migrate down`; those of before go on with the rows",
    ),
    Phase(
        2,
        "pokes beside the poll: NOTIFY on, still every 2 s",
        ("job_notification_received_total", "job_claimed_total", "job_queue_depth"),
        "PENSTOCK_VAULT_PHASE=1 turns NOTIFY off",
    ),
    Phase(
        3,
        "the poll as the safety net: NOTIFY on, every 30 s",
        ("job_notification_received_total", "job_poll_scanned_total", "job_queue_depth", "job_processing_seconds"),
        "PENSTOCK_VAULT_PHASE=2 polls every 2 s again",
    ),
    Phase(
        4,
        "one week of watching, with the settings of phase 3",
        (
            "job_notification_received_total",
            "job_poll_scanned_total",
            "job_queue_depth",
            "job_completed_total",
            "job_processing_seconds",
        ),
        "PENSTOCK_VAULT_PHASE=2 polls every 2 s again",
    ),
    Phase(
        5,
        "stable: these are the defaults, and the setting can go",
        ("job_queue_depth", "job_completed_total"),
        "PENSTOCK_VAULT_PHASE=2 polls every 2 s again",
    ),
)
BY_NUMBER: Final[Mapping[int, Phase]] = {phase.number: phase for phase in PHASES}


@dataclass(frozen=True, slots=True)
class Standing:
    """A worker that enriches, as it said when it started, and what started its runs in the last hour."""

    worker_id: str
    notify: str | None
    poll_seconds: float | None
    started_at: datetime
    heartbeat_at: datetime
    by_poke: int
    by_poll: int

    @property
    def phase(self) -> int | None:
        """The phase that its settings are; 3 for all that follow too, None for settings of somebody's own."""
        return phase_of(self.notify, self.poll_seconds)


def phase_of(notify: str | None, poll_seconds: float | None) -> int | None:
    """The first phase of these settings, or None: a long poll without NOTIFY, for one, is no phase."""
    pokes = "off" if notify == "off" else OPEN
    return next((phase.number for phase in PHASES if (phase.notify, phase.poll_seconds) == (pokes, poll_seconds)), None)


def phase_here(settings: Settings) -> int | None:
    """The phase of *settings*: as it was named, unless what was set beside it says something else.

    Settings tell phases apart up to the third only; the later ones are told by
    their name, and whoever names none has the defaults, which are the last.
    """
    found = phase_of(settings.notify, settings.poll_seconds)
    named = PHASES[-1].number if settings.vault_phase is None else settings.vault_phase
    return named if found == min(named, RAISED) else found


async def standings(db: Db) -> list[Standing]:
    """Where each worker stands that is alive and enriches items."""
    return [Standing(**row) for row in await db.fetch(sql("phases/workers"), JOB_TYPE, ALIVE)]


def agreed(found: Sequence[Standing], settings: Settings) -> Phase | None:
    """The phase of all of them; None while they differ, or when there are none.

    Which of those from the third on it is, is what *settings* say.
    """
    phases = {standing.phase for standing in found}
    common = phases.pop() if len(phases) == 1 else None
    here = phase_here(settings)
    if common is None:
        return None
    return BY_NUMBER[here if here is not None and min(here, RAISED) == common else common]
