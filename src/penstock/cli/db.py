"""`penstock db`: the embedded server by hand.

Exit codes: 0 done, 1 the server cannot do it, 3 it is not running,
4 it stays up because other processes use it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from penstock.embedded import EmbeddedServer, EmbeddedServerError, ServerStatus

FAILED = 1
NOT_RUNNING = 3
IN_USE = 4

app = typer.Typer(name="db", help="The embedded PostgreSQL server.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command()
def start() -> None:
    """Start the embedded server and keep it up until `penstock db stop`."""
    with _told():
        server = EmbeddedServer()
        server.start(pin=True)
        typer.echo(f"The server runs and stays up: {server.url()}")


@app.command()
def stop(
    *, force: Annotated[bool, typer.Option("--force", help="Stop it under the processes that use it.")] = False
) -> None:
    """Stop the embedded server, or let the last process that uses it do so."""
    with _told():
        server = EmbeddedServer()
        if server.status().pid is None:
            server.unpin()
            typer.echo("The server is not running.")
        elif server.stop(force=force):
            typer.echo("The server is stopped.")
        else:
            pids = ", ".join(map(str, server.status().holders))
            _fail(f"Still in use by process {pids}; the last to end stops it. Stop it now with --force.", IN_USE)


@app.command()
def status(*, as_json: Json = False) -> None:
    """Say whether the embedded server runs, where, and who uses it."""
    with _told():
        found = EmbeddedServer().status()
        if as_json:
            typer.echo(json.dumps(found.as_dict()))
        else:
            Console(soft_wrap=True).print(_table(found))
        if not found.running:
            raise typer.Exit(NOT_RUNNING)


@app.command()
def url(
    *,
    superuser: Annotated[bool, typer.Option("--superuser", help="The login that makes roles.")] = False,
) -> None:
    """Print the DSN of the embedded server, for psql and PENSTOCK_DSN."""
    with _told():
        server = EmbeddedServer()
        if not server.status().running:
            _fail("The server is not running. Start it with `penstock db start`.", NOT_RUNNING)
        typer.echo(server.superuser_url() if superuser else server.url())


@contextmanager
def _told() -> Iterator[None]:
    """Turn what goes wrong into a sentence and exit code 1."""
    try:
        yield
    except EmbeddedServerError as error:
        _fail(str(error))
    except OSError as error:
        if error.filename is None:  # no file of the server's
            raise
        _fail(f"{error.strerror}: {error.filename}. Set PENSTOCK_HOME to a directory of your own.")


def _table(found: ServerStatus) -> Table:
    table = Table("", "the embedded server", show_header=False, box=None)
    table.add_row("state", _state(found))
    table.add_row("version", f"PostgreSQL {found.version}")
    table.add_row("process", str(found.pid or "-"))
    table.add_row("home", str(found.home))
    table.add_row("socket", str(found.socket))
    table.add_row("used by", ", ".join(map(str, found.holders)) or "-")
    return table


def _state(found: ServerStatus) -> str:
    if not found.running:
        return "starting" if found.pid else "not running"
    return "running until `penstock db stop`" if found.pinned else "running while it is used"


def _fail(message: str, code: int = FAILED) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)
