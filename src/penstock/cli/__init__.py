"""The command line. A command group is imported when it is used: a worker needs no tables, a table no worker."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from penstock.cli.exits import USAGE, fail, tell, told
from penstock.contract.texts import is_text

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each is `penstock.cli.<module>` with an `app = typer.Typer(...)`; the order is that of the help.
GROUPS: Final[Mapping[str, str]] = {
    "worker": "worker",
    "scheduler": "scheduler",
    "serve": "serve",
    "keys": "keys",
    "jobs": "jobs",
    "dead": "dead",
    "types": "types",
    "workers": "workers",
    "runs": "runs",
    "run": "run",
    "schedules": "schedules",
    "alerts": "alerts",
    "audit": "audit",
    "retention": "retention",
    "effects": "effects",
    "batches": "batches",
    "deliveries": "deliveries",
    "spend": "spend",
    "rewrite": "rewrite",
    "review": "review",
    "vault": "vault",
    "stats": "stats",
    "migrate": "migrate",
    "roles": "roles",
    "doctor": "doctor",
    "db": "db",
    "demo": "demo",
    "emulator": "emulator",
}


class LazyGroup(TyperGroup):
    """Knows its commands by name and imports the one that is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """The groups that this installation has."""
        return [name for name in GROUPS if _here(name)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """Import one group; None is no such command."""
        return _group(cmd_name) if cmd_name in GROUPS and _here(cmd_name) else None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse bytes that are no text once, for all commands: neither the database nor a terminal takes them."""
        for argument in args:
            if not is_text(argument):
                fail(f"The argument {argument[:40]!a} is no UTF-8; write it in UTF-8.", USAGE)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a broken pipe is told here, as click would say 1 without a word."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            tell(error)


def _here(name: str) -> bool:
    return find_spec(f"penstock.cli.{GROUPS[name]}") is not None


@cache  # built from the hints of every command in it, which takes longer than most commands; a context is made per call
def _group(name: str) -> Any:
    command = typer.main.get_command(import_module(f"penstock.cli.{GROUPS[name]}").app)
    command.name = name
    return command


cli = typer.Typer(
    name="penstock",
    cls=LazyGroup,
    help="Durable jobs on PostgreSQL. Uses PENSTOCK_DSN, or an embedded server when it is not set.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _version(*, asked: bool) -> None:
    if asked:
        from penstock.version import VERSION

        typer.echo(f"penstock {VERSION}")
        raise typer.Exit


@cli.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=lambda asked: _version(asked=asked), is_eager=True)
    ] = False,
) -> None:
    """Durable jobs on PostgreSQL."""


def main() -> None:
    """Run the command line; what goes wrong is told, with its exit code."""
    try:
        with told():
            cli(prog_name="penstock")
    except typer.Exit as ended:
        raise SystemExit(ended.exit_code) from None
