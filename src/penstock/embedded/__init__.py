"""The PostgreSQL server Penstock brings along, used when no DSN is given.

One home directory holds one server: its data, its socket, its log, and the
names of the processes that use it. The first process that needs the server
starts it, the last one that ends cleanly stops it, and a process killed with
-9 leaves it running for the next. `penstock db start` pins it until
`penstock db stop`.

    accounts   which operating system account runs the server, and how it is made
    folders    directories by descriptor: root follows no link in one that others own
    binaries   where PostgreSQL's programs are, and how one is run
    home       the directory: its layout, its lock, its holders
    cluster    making the data directory and its configuration
    processes  what /proc knows about a server and its orphans
    server     start, stop, hold, release, status
"""

from penstock.embedded.binaries import Binaries, installed, packaged
from penstock.embedded.errors import EmbeddedServerError
from penstock.embedded.home import default_home
from penstock.embedded.server import EmbeddedServer, ServerStatus, ensure_started

__all__ = [
    "Binaries",
    "EmbeddedServer",
    "EmbeddedServerError",
    "ServerStatus",
    "default_home",
    "ensure_started",
    "installed",
    "packaged",
]
