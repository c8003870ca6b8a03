"""`penstock emulator`: a loopback OpenAI, Gemini, Anthropic and Resend, webhooks and mail, until told to stop."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.exits import USAGE, fail
from penstock.contract.places import is_host

if TYPE_CHECKING:
    from penstock.emulator import Emulator

SEEDS: Final = 1_000_000_000

app = typer.Typer(name="emulator", add_completion=False)


@app.command()
def emulator(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free port.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    faults: Annotated[Path | None, typer.Option(help="A script of faults and answers, as JSON.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="For ids and for faults with a probability. [default: another one each time, printed]"),
    ] = None,
    finish_after: Annotated[float, typer.Option(min=0, help="Seconds that a batch takes.")] = 1.0,
    cancel_after: Annotated[float, typer.Option(min=0, help="Seconds that a cancel takes.")] = 0.0,
    smtp_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Take mails there too; 0 takes a free port. [default: none]")
    ] = None,
) -> None:
    """Speak the providers' APIs on loopback. The first line printed is the URL; nothing is written to disk."""
    if not is_host(host):
        fail(f"No host {host[:40]!r}; name this machine, such as 127.0.0.1, or ::1.", USAGE)
    script = {} if faults is None else _read(faults)
    mail = {"mail": smtp_port is not None, "smtp_port": smtp_port or 0}
    times = {"finish_after": finish_after, "cancel_after": cancel_after}
    if seed is None:  # the same ids again would be those of batches that a database knows from an earlier start
        seed = secrets.randbelow(SEEDS)
    made = _create(host=host, port=port, seed=seed, script=script, **times, **mail)
    try:
        url = made.listen()
    except OSError as error:
        fail(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port, or 0 for a free one")
    typer.echo(url)
    typer.echo(f"{'seed':<10} {seed}")
    for name in ("openai", "gemini", "anthropic"):
        typer.echo(f"{name:<10} {getattr(made, f'{name}_base_url')}")
    typer.echo(f"{'resend':<10} {made.resend_url}")
    typer.echo(f"{'webhook':<10} {made.webhook_url('NAME')} signed with {made.webhook_secret}")
    if smtp_port is not None:
        typer.echo(f"{'smtp':<10} {':'.join(map(str, made.smtp_address))}")
    made.serve()


def _create(**settings: Any) -> Emulator:
    try:
        from penstock.emulator import Emulator
    except ModuleNotFoundError as missing:
        fail(f"the emulator needs {missing.name}; install penstock[emulator]")
    try:
        return Emulator(**settings)
    except (ValueError, TypeError) as error:
        fail(f"the script is wrong: {error}", USAGE)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}", USAGE)
    except ValueError as error:
        fail(f"{path} is no JSON: {error}", USAGE)
    if not isinstance(found, dict):
        fail(f"{path} has to be an object with 'faults' and 'answers'", USAGE)
    return found
