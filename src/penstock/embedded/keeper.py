"""Starts a server again that was killed under a process that holds it.

A worker that runs for weeks must not wait for somebody else's command. Where
the server was stopped, by `penstock db stop --force` for one, it stays down: a
server that stops takes its pid file with it, one that was killed leaves it.
"""

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.embedded.errors import EmbeddedServerError

if TYPE_CHECKING:
    from penstock.embedded.server import EmbeddedServer

LOOK_EVERY: Final = 2.0  # seconds


class Keeper:
    """A thread that looks after *server* until `release`."""

    def __init__(self, server: "EmbeddedServer") -> None:
        self._server = server
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._look, name="penstock embedded server", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def release(self) -> None:
        """Look no more, and let go of the server."""
        self._released.set()
        if self._thread.is_alive():  # not in a child that was forked from this process
            self._thread.join()
        self._server.release()

    def _look(self) -> None:
        while not self._released.wait(LOOK_EVERY):
            with suppress(EmbeddedServerError, OSError):  # whoever asks the server meets the reason
                self._server.revive()
