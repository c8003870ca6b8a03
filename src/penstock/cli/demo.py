"""`penstock demo`: real work, processes killed in the middle, and a closing table. Exit code 1 when a promise broke."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.exits import FAILED, fail, told

app = typer.Typer(name="demo", add_completion=False)


@app.command()
def demo(
    *,
    keep: Annotated[Path | None, typer.Option(help="Keep server, pictures and logs in this new directory.")] = None,
) -> None:
    """Watch the engine at work: about half a minute, on a server of its own."""
    if keep is not None and keep.exists():
        fail(f"{keep} exists; name a directory that does not")
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        del os.environ[name]  # the play has its own settings
    from penstock.demo.play import play
    from penstock.demo.view import View

    with told(), View() as view:
        kept = asyncio.run(play(view, keep))
    if not kept:
        raise typer.Exit(FAILED)
