"""Two connections, step by step: every way in which two short scripts can meet on one job.

A script is a list of operations; each is two steps, its statement and the end
of its transaction, so locks are held in between. A statement that has to wait
for the other connection is noticed by asking the server who blocks whom; it
goes on when the other one ends its transaction, and what its script still
owed is done then.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from tests.model.model import Model, Ticket, Type

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    import asyncpg

    from tests.model.ground import Ground

TYPE: Final = Type("raced", attempts=100)
PASSED_OVER: Final = ("claim", "reap", "renew")  # they skip a locked row instead of waiting for it


@dataclass
class Done:
    """One operation as it went: what it answered, and when it began and committed."""

    actor: str
    op: str
    ticket: Ticket | None
    began: int
    alone: bool  # no other transaction was open when it began
    result: Any = None
    ended: int | None = None  # None: rolled back


@dataclass
class Actor:
    """One connection with its script: operations, and `-` behind one that is rolled back."""

    name: str
    db: asyncpg.Connection[Any]
    script: Sequence[str]
    ticket: Ticket | None
    at: int = 0
    current: Done | None = None
    waiting: asyncio.Task[Any] | None = None
    owed: int = 0
    kept: Ticket | None = None
    history: list[Done] = field(default_factory=list)


def interleavings(one: Sequence[str], two: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Every order of the steps of two scripts; 0 and 1 name the actor of each step."""
    length = 2 * (len(one) + len(two))
    for places in combinations(range(length), 2 * len(one)):
        yield tuple(0 if n in places else 1 for n in range(length))


class Race:
    """One interleaving on the database."""

    def __init__(self, ground: Ground, watcher: asyncpg.Connection[Any], actors: tuple[Actor, Actor], job: int) -> None:
        self._ground = ground
        self._watcher = watcher
        self._actors = actors
        self._job = job
        self._tick = 0

    async def run(self, order: Sequence[int]) -> list[list[Done]]:
        """Carry out the steps; what committed, for each actor."""
        for who in order:
            actor = self._actors[who]
            if actor.waiting is None:
                await self._step(actor)
            else:
                actor.owed += 1
        assert not any(actor.waiting or actor.owed for actor in self._actors)
        return [[done for done in actor.history if done.ended is not None] for actor in self._actors]

    async def _step(self, actor: Actor) -> None:
        self._tick += 1
        if actor.current is None:
            await self._begin(actor)
        else:
            await self._end(actor)

    async def _begin(self, actor: Actor) -> None:
        other = self._other(actor)
        await actor.db.execute("begin")
        op = actor.script[actor.at].removesuffix("-")
        actor.current = Done(actor.name, op, actor.ticket, self._tick, other.current is None)
        task = asyncio.create_task(self._perform(actor, op))
        while not (await asyncio.wait({task}, timeout=0.003))[0]:
            if await self._watcher.fetchval("select pg_blocking_pids($1) <> '{}'", actor.db.get_server_pid()):
                actor.waiting = task
                return
        self._answered(actor, task.result())

    async def _end(self, actor: Actor) -> None:
        assert actor.current is not None
        if actor.script[actor.at].endswith("-"):
            await actor.db.execute("rollback")
            actor.ticket = actor.kept
        else:
            await actor.db.execute("commit")
            actor.current.ended = self._tick
        actor.history.append(actor.current)
        actor.current = None
        actor.at += 1
        await self._go_on(self._other(actor))

    async def _go_on(self, actor: Actor) -> None:
        """The other transaction is over: a statement that waited for it answers now."""
        if actor.waiting is None:
            return
        async with asyncio.timeout(10):
            result = await actor.waiting
        actor.waiting = None
        self._answered(actor, result)
        while actor.owed:
            actor.owed -= 1
            await self._step(actor)

    def _answered(self, actor: Actor, result: Any) -> None:
        assert actor.current is not None
        actor.current.result = result
        actor.kept = actor.ticket
        if isinstance(result, Ticket):
            actor.ticket = result

    def _other(self, actor: Actor) -> Actor:
        return self._actors[actor is self._actors[0]]

    async def _perform(self, actor: Actor, op: str) -> Any:
        """Any operation, on the actor's own connection."""
        ground, db, ticket = self._ground, actor.db, actor.ticket
        if op == "claim":
            taken = await ground.take(actor.name, [TYPE], 1, db)
            return next(iter(taken or await ground.take_suspect(actor.name, [TYPE], db)), None)
        if op == "reap":
            return (await ground.reap(db)).get(self._job)
        if op == "cancel":
            return await ground.cancel(self._job, db)
        return ticket is not None and await self._write(op, ticket, db)

    async def _write(self, op: str, ticket: Ticket, db: asyncpg.Connection[Any]) -> bool | None:
        """What only the owner of the claim may do."""
        ground, worker = self._ground, ticket.worker
        writes: dict[str, Callable[[], Awaitable[object]]] = {
            "complete": lambda: ground.complete(worker, [ticket], db),
            "finish": lambda: ground.finish(worker, ticket, db),
            "requeue": lambda: ground.requeue(worker, ticket, delay=0, charged=True, code="X", db=db),
            "fail": lambda: ground.fail(worker, ticket, "RUNTIME_BUG", db),
            "renew": lambda: ground.renew(worker, ticket, db),
        }
        answer = await writes[op]()
        if op == "complete":
            return not answer  # it names the claims that were lost
        return None if answer is None else bool(answer)


def explained(start: Model, histories: list[list[Done]], row: tuple[Any, ...]) -> bool:
    """Whether some order of the committed operations, one after the other, gives these answers and this row."""
    return any(_replays(start.copy(), order, row) for order in _serial_orders(*histories))


def _serial_orders(one: list[Done], two: list[Done]) -> Iterator[list[Done]]:
    """Merges of two histories in which nothing comes before what had committed when it began."""
    if not one or not two:
        yield one + two
        return
    for mine, others in ((one, two), (two, one)):
        first = mine[0]
        if any(done.ended is not None and done.ended < first.began for done in others):
            continue
        rest = (mine[1:], others) if mine is one else (others, mine[1:])
        for order in _serial_orders(*rest):
            yield [first, *order]


def _replays(model: Model, order: list[Done], row: tuple[Any, ...]) -> bool:
    for done in order:
        if done.op in PASSED_OVER and done.result is None and not done.alone:
            continue
        if _expected(model, done) != _renumbered(done.result):
            return False
    [job] = model.jobs.values()
    return row == (job.status, job.fence, job.owner, job.attempts, job.code)


def _expected(model: Model, done: Done) -> Any:
    """What the model answers to one operation."""
    ticket = _renumbered(done.ticket)
    if done.op == "claim":
        found = model.claimable(TYPE)[:1] or model.next_suspect([TYPE], done.actor)
        return next(iter(model.grant(found, done.actor)), None)
    if done.op == "reap":
        return next(iter(model.reap().values()), None)
    if done.op == "cancel":
        return model.cancel(0)
    return ticket is not None and _written(model, done.op, ticket)


def _written(model: Model, op: str, ticket: Ticket) -> bool:
    worker = ticket.worker
    writes = {
        "complete": lambda: not model.complete(worker, [ticket]),
        "finish": lambda: model.finish(worker, ticket),
        "requeue": lambda: model.requeue(worker, ticket, delay=0, charged=True, code="X"),
        "fail": lambda: model.fail(worker, ticket, "RUNTIME_BUG"),
        "renew": lambda: model.renew(worker, ticket),
    }
    return writes[op]()


def _renumbered(answer: Any) -> Any:
    """The model's only job has the number 0."""
    return Ticket(0, answer.fence, answer.worker) if isinstance(answer, Ticket) else answer
