"""What the audience sees: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    Counts = Mapping[str, Mapping[str, int]]  # by type, by status

PAUSE = 1.0  # seconds between lines where there is no terminal
WIDTH = 120  # there too
COLUMNS = ("queued", "processing", "batch_submitted", "completed", "failed")


class View:
    """Tells what happens; one per performance."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or _console()
        self._live: Live | None = None
        self._told = 0.0
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        self.still()

    def act(self, title: str) -> None:
        """A new act begins."""
        self.still()
        self.console.print(f"\n[bold]{title}[/bold]")

    def say(self, text: str) -> None:
        """One line."""
        elapsed = time.monotonic() - self._started
        self.console.print(f"[dim]{elapsed:5.1f} s[/dim]  {text}", highlight=False, soft_wrap=True)

    def progress(self, counts: Counts, workers: Sequence[Mapping[str, Any]]) -> None:
        """How the work stands now."""
        if self.console.is_terminal:
            if self._live is None:
                self._live = Live(console=self.console, refresh_per_second=10, transient=True)
                self._live.start()
            self._live.update(Group(_work(counts), Text(), *([_workers(workers)] if workers else [])))
        elif time.monotonic() - self._told >= PAUSE:
            self._told = time.monotonic()
            self.say(_line(counts))

    def still(self) -> None:
        """No more progress for now."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self, rows: Sequence[tuple[str, str, bool]]) -> None:
        """The closing table: what was promised, what was found, and whether the two agree."""
        self.act("What the database says")
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("promise")
        table.add_column("found")
        table.add_column("")
        for promise, found, kept in rows:
            table.add_row(promise, found, "[green]kept[/green]" if kept else "[bold red]BROKEN[/bold red]")
        self.console.print(table)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def _work(counts: Counts) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("work")
    table.add_column("", width=32)
    columns = [column for column in COLUMNS if column != "batch_submitted" or any(column in c for c in counts.values())]
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for job_type, found in sorted(counts.items()):
        total = sum(found.values())
        bar = ProgressBar(total=total or 1, completed=found.get("completed", 0), width=30)
        table.add_row(job_type, bar, *(str(found.get(column, 0)) for column in columns))
    return table


def _workers(workers: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("worker", "process", "running"):
        table.add_column(column)
    for worker in workers:
        table.add_row(worker["worker_id"], str(worker["pid"]), str(worker["busy"]))
    return table


def _line(counts: Counts) -> str:
    return "   ".join(f"{job_type} {_share(found)}" for job_type, found in sorted(counts.items()))


def _share(found: Mapping[str, int]) -> str:
    away = found.get("batch_submitted", 0)
    return f"{found.get('completed', 0)}/{sum(found.values())}" + (f" ({away} at providers)" if away else "")
