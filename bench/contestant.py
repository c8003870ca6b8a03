"""The face every contestant shows: the harness knows nothing else of them."""

from __future__ import annotations

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

if TYPE_CHECKING:
    from bench.board import Region

# In the order of the table; each is a module of bench.contestants with a `contestant` in it.
NAMES: Final = (
    "limit",
    "penstock",
    "penstock-full",
    "pgqueuer",
    "chancy",
    "oban",
    "saq",
    "procrastinate",
    "dbos",
)
TYPE: Final = "noop"


class Client(Protocol):
    """The enqueueing side. Every job carries its number, so that it can be counted."""

    async def one(self, number: int) -> None:
        """Enqueue one job in a transaction of its own."""

    async def wake(self, number: int) -> None:
        """Enqueue one job so that an idle worker hears of it at once."""

    async def many(self, numbers: Sequence[int], *, less_urgent: bool = False) -> None:
        """Enqueue a set of jobs the fastest way the contestant offers."""


@dataclass(frozen=True, slots=True)
class Duty:
    """What a worker process is to do, and where it reports what ran."""

    dsn: str
    region: Region
    concurrency: int = 0  # 0: the contestant's best
    hang: bool = False  # the handler never returns: the process is going to be killed
    lease: float = 0.0  # 0: the contestant's default


class Contestant(ABC):
    """One queue under test; the settings in its module are the best reasonable ones for no-op jobs."""

    name: ClassVar[str]
    distribution: ClassVar[str] = ""  # of which the version is reported
    share: ClassVar[float] = 1.0  # of --jobs, so that a slow contestant does not eat the run
    growth_share: ClassVar[float] = 1.0  # the same, beside a long history
    schema_of: ClassVar[str] = ""  # set by a contestant that lives in somebody else's tables
    pending: ClassVar[str]  # SQL: is any due job not yet durably finished?

    @abstractmethod
    async def setup(self, dsn: str) -> None:
        """Make the schema in an empty database."""

    @abstractmethod
    def client(self, dsn: str) -> AbstractAsyncContextManager[Client]:
        """Connect the enqueueing side."""

    @abstractmethod
    def work(self, duty: Duty) -> None:
        """Be a worker until killed. Runs in a process of its own."""

    async def preload(self, dsn: str, *, finished: int, future: int) -> None:
        """Fill the tables as a long life would; only some contestants can."""
        raise NotImplementedError

    async def preload_others(self, dsn: str, jobs: int) -> None:
        """Put due jobs of a type no worker here serves in front of everything."""
        raise NotImplementedError


class Missing(Exception):
    """The contestant's package is not installed here; the run goes on without it."""


def load(name: str) -> Contestant:
    """Import a contestant; a package that is not there raises `Missing` with its name."""
    try:
        module = importlib.import_module(f"bench.contestants.{name.replace('-', '_')}")
    except ModuleNotFoundError as error:
        raise Missing(f"{name}: no module {error.name}") from error
    found: Contestant = module.contestant
    return found


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed: the same loop for everybody."""
    try:
        import uvloop
    except ModuleNotFoundError:
        asyncio.run(main)
    else:
        uvloop.run(main)
