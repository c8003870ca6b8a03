"""A process that forks the Python children of tests: it has imported everything already, so a start costs milliseconds.

An order is one packet on a Unix socket, JSON with the three standard streams beside it. The answers are {"pid": n} and,
when that process has ended, {"status": s}. Whoever started this gets its exit when orders are taken. It ends with the
run of tests, when nobody holds the run's lock any more, and takes along what it forked.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

PACKET: Final = 1024 * 1024  # more than an environment and a command line can hold
STREAMS: Final = 3
LOOK_SECONDS: Final = 0.5  # between looks at the run's lock
PATIENCE: Final = 10.0  # seconds for a client to say what it wants
UNFLUSHED: Final = 120  # what the interpreter says when its last words could not be written
# Not imported here: what no command of the tests uses, and what runs when it is imported.
LEFT_OUT: Final = {"__main__", "demo", "testing", "env", "versions"}
# What commands import later than their own modules. Applications of tests are not here: they read the environment.
LATER: Final = (
    "anthropic.resources.messages.batches", "anyio._backends._asyncio", "cryptography.hazmat.primitives.ciphers.aead",
    "fastapi.routing", "google.auth.aio.credentials", "google.genai.batches", "httpcore._backends.anyio", "httpcore2",
    "httpx", "jsonschema_rs", "langcodes", "lingua", "openai.resources.batches", "openai.resources.files",
    "openai.resources.responses", "psycopg", "psycopg_binary._uuid", "rich.table", "tests.engine.batches.scenarios",
    "typer.rich_utils", "uvicorn.lifespan.off", "uvicorn.loops.asyncio", "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto", "uvloop",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Order:
    """What a fork is to be: `python` with these arguments."""

    arguments: list[str]
    environment: dict[str, str]
    directory: str
    streams: Sequence[int]


class ForkServer:
    """Forks on demand, and tells of deaths. It has one thread, as only that survives a fork whole."""

    def __init__(self, listener: socket.socket, lock: Path) -> None:
        self._listener = listener
        self._lock = lock.open()
        self._living: dict[int, tuple[int, socket.socket]] = {}  # by a descriptor that is readable after the death
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> Order | None:
        """Fork until the run has ended. In a fork this returns too, with what it is to be."""
        while not self._run_has_ended():
            for key, _ in self._selector.select(LOOK_SECONDS):
                if key.fileobj is not self._listener:
                    self._bury(key.fd)
                elif (order := self._take()) is not None:
                    return order
        for pid, _ in self._living.values():
            os.kill(pid, signal.SIGKILL)
        return None

    def _run_has_ended(self) -> bool:
        if os.fstat(self._lock.fileno()).st_nlink == 0:
            return True
        try:
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _take(self) -> Order | None:
        """Fork for the next client; only in the fork this returns an order."""
        connection, _ = self._listener.accept()
        connection.settimeout(PATIENCE)
        try:
            said, streams, _, _ = socket.recv_fds(connection, PACKET, STREAMS)
        except OSError:
            connection.close()
            return None
        if len(streams) < STREAMS:  # it left before it said anything
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            connection.close()
            self._let_go()
            return Order(**json.loads(said), streams=streams)
        for stream in streams:
            os.close(stream)
        death = os.pidfd_open(pid)
        self._living[death] = pid, connection
        self._selector.register(death, selectors.EVENT_READ)
        _tell(connection, pid=pid)
        return None

    def _bury(self, death: int) -> None:
        pid, connection = self._living.pop(death)
        self._selector.unregister(death)
        os.close(death)
        _, status = os.waitpid(pid, 0)
        _tell(connection, status=status)
        connection.close()

    def _let_go(self) -> None:
        """Close what is the server's: others would take a fork that holds it for the server."""
        self._selector.close()
        self._listener.close()
        self._lock.close()
        for death, (_, connection) in self._living.items():
            os.close(death)
            connection.close()


def _tell(connection: socket.socket, **what: int) -> None:
    with suppress(OSError):  # a client that has gone does not want to know
        connection.send(json.dumps(what).encode())


def become(order: Order) -> NoReturn:
    """Be the process of *order*, from its first line to what the interpreter does at the end."""
    for number, stream in enumerate(order.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    tempfile.tempdir = None  # it is chosen by the environment
    sys.orig_argv = [sys.executable, *order.arguments]
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    code = _exit_code(lambda: _run(order.arguments))
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    code = _flushed(code)
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)  # taking apart all that was imported would cost more than most commands


def _run(arguments: list[str]) -> None:
    """As `python` does: a module after -m, else a file."""
    if arguments[0] == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def _exit_code(run: Callable[[], None]) -> int:
    try:
        run()
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        sys.stderr.write(f"{left.code}\n")
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _flushed(code: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError) as error:
            with suppress(OSError, ValueError):
                sys.stderr.write(f"Exception ignored in: {stream!r}\n{error!r}\n")
                sys.stderr.flush()
            return UNFLUSHED
    return code


def load() -> None:
    """Import all that commands may need, and read the models of the languages that are written in Latin letters."""
    import penstock

    names = [found.name for found in pkgutil.walk_packages(penstock.__path__, "penstock.")]
    for name in (*names, *LATER):
        if not LEFT_OUT & set(name.split(".")):
            import_module(name)
    _read_models()


def _read_models() -> None:
    """By recognising something: a detector that is asked to read them beforehand starts threads for it.

    They are the library's own and all its detectors use them. A process takes three seconds to read them.
    """
    from lingua import LanguageDetectorBuilder

    from penstock.apps.rewrite.classifier import languages

    known = languages.known()
    tongues = [known[code] for code in languages.chosen(None) if code in known]
    LanguageDetectorBuilder.from_languages(*tongues).build().compute_language_confidence_values("one or two words")


def preload() -> None:
    """Import all that commands may need, and nothing that a fork would not get whole."""
    load()
    if (threads := len(list(Path("/proc/self/task").iterdir()))) != 1:
        raise RuntimeError(f"an import has started a thread ({threads} now): leave it out, a fork would lack it")
    gc.collect()
    gc.freeze()


def main(path: str, lock: str, *options: str) -> None:
    """Listen at *path* as long as others hold *lock*."""
    if "--preload" in options:
        preload()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for the tests, which then end the run
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{path}.new")  # never seen by a client before it listens
        listener.listen(64)
        Path(f"{path}.new").rename(path)
        if os.fork() != 0:
            os._exit(0)
        order = ForkServer(listener, Path(lock)).serve()
    if order is not None:
        become(order)


if __name__ == "__main__":
    main(*sys.argv[1:])
