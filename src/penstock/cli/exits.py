"""Exit codes, and the way from an error to its words on stderr.

0  done                      5  the schema is missing or of another version
1  refused by a rule         6  refused: step out of order, unsafe login, name taken
2  wrong usage or settings   7  doctor found problems
3  nothing of that name      70 a bug of Penstock
4  the database is away
141 whoever was to read the output has gone, as `penstock jobs list | head -1` does
"""

from __future__ import annotations

import errno
import os
import select
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

import typer

from penstock.contract import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
UNAVAILABLE: Final = 4
OUTDATED: Final = 5
REFUSED: Final = 6
UNHEALTHY: Final = 7
BUG: Final = 70
UNREAD: Final = 141  # what a shell says of a command that SIGPIPE has ended

# What a write to a file says, such as stdout on a full disk, and a connection to a server never does.
UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

# The first class that fits decides, so a subclass stands before its parent.
BY_ERROR: Final[tuple[tuple[type[errors.PenstockError], int], ...]] = (
    (errors.SchemaOutdated, OUTDATED),
    (errors.DatabaseUnavailable, UNAVAILABLE),
    (errors.NotFound, NOT_FOUND),
    (errors.UnknownType, NOT_FOUND),
    (errors.CannotListen, FAILED),  # whoever has the port may leave it: not for a service manager to give up on
    (errors.SettingsInvalid, USAGE),
    (errors.InputRefused, USAGE),
    (errors.StepRefused, REFUSED),
    (errors.UnsafeLogin, REFUSED),
    (errors.WorkerNameTaken, REFUSED),
    (errors.PartEnded, BUG),
    (errors.PenstockError, FAILED),
)


# What comes with which extra, for commands whose modules an installation may lack.
EXTRAS: Final[Mapping[str, str]] = {
    "cryptography": "rewrite",
    "langcodes": "rewrite",
    "lingua": "rewrite",
    "aiosmtplib": "review",
    "httpx": "review",
    "standardwebhooks": "review",
    "sqlalchemy": "sqlalchemy",
    "fastapi": "web",
    "uvicorn": "web",
}


def exit_code(error: errors.PenstockError) -> int:
    """The exit code that stands for *error*."""
    return next(code for kind, code in BY_ERROR if isinstance(error, kind))


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Say *message* on stderr and end with *code*."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


@contextmanager
def told() -> Iterator[None]:
    """Turn what goes wrong inside into one sentence on stderr and an exit code, never a traceback."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        tell(error)


def tell(error: Exception) -> NoReturn:
    """End with the words and the code of *error*."""
    if isinstance(error, BrokenPipeError) and _reader_gone():
        _leave_quietly()
    if isinstance(error, OSError) and error.filename is None and error.errno in UNWRITABLE:
        _drop_output()
        fail(f"The output cannot be written: {error.strerror}. The command may be done; look before you repeat it.")
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        fail(f"This command needs {error.name}; install penstock[{extra}].")
    from penstock.embedded import EmbeddedServerError
    from penstock.store.refusals import explained

    if isinstance(error, EmbeddedServerError):
        fail(_sentence(str(error)), UNAVAILABLE)
    if isinstance(error, OSError) and error.filename is not None:
        fail(f"{error.strerror}: {error.filename}")
    known = explained(error)
    if known is not None:
        fail(_sentence(str(known)), exit_code(known))
    _tell_bug(error)


def _reader_gone() -> bool:
    """Whether stdout is a pipe that nobody reads any more; another broken pipe is the database's."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (AttributeError, OSError):  # no poll on this system, or no file behind stdout
        return False


def _leave_quietly() -> NoReturn:
    _drop_output()
    raise typer.Exit(UNREAD)


def _drop_output() -> None:
    """What is still in the buffer goes nowhere, so that the end of the process finds nothing to complain of."""
    with suppress(AttributeError, OSError):  # no file behind stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell_bug(error: Exception) -> NoReturn:
    """An error that nobody expected: frames and types only, as its text may hold a user's data."""
    from penstock.telemetry.redaction import redact_stack

    if os.environ.get("PENSTOCK_DEBUG"):
        raise error
    typer.echo(redact_stack(error, messages=False), err=True)
    fail("This is a bug of Penstock; please report the lines above. PENSTOCK_DEBUG=1 shows the whole error.", BUG)


def _sentence(message: str) -> str:
    """*message* with a capital letter in front, unless an address stands there."""
    first = message.partition(" ")[0]
    return message if "://" in first else message[:1].upper() + message[1:]
