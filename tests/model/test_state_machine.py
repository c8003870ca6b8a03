"""A state machine against a model: random walks over every statement of the store, compared after each step.

PENSTOCK_MODEL_EXAMPLES=2000 walks for longer, and along other ways each time.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from penstock import Penstock
from penstock.contract.statuses import MOVES, Status
from penstock.engine.process import loop_factory
from penstock.store import claims as store
from penstock.store import types as type_store
from tests.model.ground import Ground, empty
from tests.model.model import TERMINAL, Job, Model, Ticket, Type

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from typing import TypeVar
    from uuid import UUID

    from tests.support.clusters import Database

    T = TypeVar("T")

pytestmark = pytest.mark.long

LONG: Final = int(os.environ.get("PENSTOCK_MODEL_EXAMPLES", "0"))
PLAIN: Final = Type("plain", audited=True)
GENTLE: Final = Type("gentle", attempts=2, stale_counts=False, max_reclaims=2)
NARROW: Final = Type("narrow", attempts=1, max_running=2)
TYPES: Final = (PLAIN, GENTLE, NARROW)
LEGAL: Final = {(str(begin), str(end)) for (begin, _), end in MOVES.items()}

types = st.sampled_from(TYPES)
workers = st.sampled_from(["a", "b"])
ages = st.integers(0, 12)
codes = st.sampled_from(["UPSTREAM_5XX", "RATE_LIMITED"])
orders = st.fixed_dictionaries(
    {
        "key": st.none() | st.sampled_from(["k1", "k2"]),
        "payload": st.integers(0, 1),
        "delay": st.sampled_from([0, 0, 0, 2, 7]),
        "priority": st.integers(-1, 1),
    }
)


class Machine(RuleBasedStateMachine):
    """Two workers, an operator, a reaper and the clock, on one database.

    Claims are chosen by how long ago they were granted, so many writes come
    from claims that are long lost. Hypothesis leaves out whole rules in most
    walks; a walk without claims would prove nothing, so a worker that has none
    takes one first.
    """

    def __init__(self, runner: asyncio.Runner, app: Penstock, superuser: asyncpg.Connection[Any]) -> None:
        super().__init__()
        self._loop = runner.get_loop()
        self._superuser = superuser
        self.model = Model()
        self.ground = Ground(app)
        self.tickets: list[Ticket] = []
        self.ended: dict[int, dict[str, Any]] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Ten thousand times in a test; `Runner.run` would set its signals each time, for a third of the time."""
        return self._loop.run_until_complete(work)

    def ticket(self, ago: int) -> Ticket:
        """A claim by its age; when nothing is being processed one is taken first."""
        if not any(job.status == "processing" for job in self.model.jobs.values()):
            self.put(PLAIN)
            self.take("ab"[len(self.tickets) % 2], [PLAIN, GENTLE], 2)
        return self.tickets[-1 - ago % len(self.tickets)] if self.tickets else self.beginning()

    def beginning(self) -> Ticket:
        """The first claim of a walk whose plain type is paused."""
        self.pause_or_resume(PLAIN, closed=False)
        self.take("a", [PLAIN], 1)
        return self.tickets[0]

    def job(self, ago: int) -> int:
        return len(self.model.jobs) - 1 - ago % len(self.model.jobs)

    # ----------------------------------------------------------- enqueue and claim

    @initialize()
    def begin(self) -> None:
        self.run(empty(self._superuser))
        self.run(self.ground.declare(*TYPES))
        for job_type in (*TYPES, *TYPES):
            self.put(job_type)

    @rule(job_type=types, wanted=st.lists(orders, min_size=1, max_size=3))
    def enqueue(self, job_type: Type, wanted: list[dict[str, Any]]) -> None:
        for order in wanted:
            self.put(job_type, **order)

    def put(self, job_type: Type, **order: Any) -> None:
        job = self.model.enqueue(job_type, **order)
        assert self.run(self.ground.enqueue(job_type, **order)) == (None if job is None else job.number)

    @rule(worker=workers, wanted=st.lists(types, min_size=1, max_size=3, unique=True), limit=st.integers(1, 4))
    def take(self, worker: str, wanted: list[Type], limit: int) -> None:
        """Which type comes first is nobody's promise; within a type the order is. Gated types are left alone."""
        waiting = {t: [] if self.model.gated(t) else self.model.claimable(t) for t in wanted}
        taken = self.run(self.ground.take(worker, wanted, limit))
        assert len(taken) == min(limit, sum(map(len, waiting.values())))
        for job_type, numbers in waiting.items():
            mine = sorted(ticket.job for ticket in taken if self.model.jobs[ticket.job].type == job_type)
            assert mine == sorted(numbers[: len(mine)])
        self._granted(taken, worker)

    @rule(worker=workers, job_type=types, limit=st.integers(1, 4))
    def take_gated(self, worker: str, job_type: Type, limit: int) -> None:
        expected = self.model.claimable(job_type)[: self.model.room(job_type, limit)]
        taken = self.run(self.ground.take_gated(worker, job_type, limit))
        assert sorted(ticket.job for ticket in taken) == sorted(expected)
        self._granted(taken, worker)

    @rule(worker=workers, wanted=st.lists(types, min_size=1, max_size=3, unique=True))
    def take_suspect(self, worker: str, wanted: list[Type]) -> None:
        expected = self.model.next_suspect(wanted, worker)
        taken = self.run(self.ground.take_suspect(worker, wanted))
        assert [ticket.job for ticket in taken] == expected
        self._granted(taken, worker)

    def _granted(self, taken: list[Ticket], worker: str) -> None:
        """No two claims of a job have one fence: the model counts them up."""
        assert sorted(self.model.grant([ticket.job for ticket in taken], worker)) == sorted(taken)
        self.tickets += taken

    # ------------------------------------------- what a worker writes, in time or too late

    @rule(worker=workers, ages=st.lists(ages, min_size=1, max_size=4))
    def complete(self, worker: str, ages: list[int]) -> None:
        some = list({ticket.job: ticket for ticket in map(self.ticket, ages)}.values())
        assert self.run(self.ground.complete(worker, some)) == self.model.complete(worker, some)

    @rule(ago=ages, how=st.sampled_from(["complete", "finish", "give_up", "renew", "steal"]))
    def end_or_renew(self, ago: int, how: str) -> None:
        ticket = self.ticket(ago)
        model, ground, owner = self.model, self.ground, ticket.worker
        match how:
            case "complete":
                assert self.run(ground.complete(owner, [ticket])) == model.complete(owner, [ticket])
            case "finish":
                assert self.run(ground.finish(owner, ticket)) == model.finish(owner, ticket)
            case "give_up":
                assert self.run(ground.give_up(owner, ticket)) == model.give_up(owner, ticket)
            case "renew":
                assert self.run(ground.renew(owner, ticket)) == model.renew(owner, ticket)
            case "steal":
                assert not self.run(ground.renew("thief", ticket))

    @rule(
        ago=ages,
        how=st.fixed_dictionaries(
            {
                "delay": st.sampled_from([0, 0, 1, 4]),
                "charged": st.booleans(),
                "code": st.none() | codes,
                "survived": st.booleans(),
            }
        ),
    )
    def requeue(self, ago: int, how: dict[str, Any]) -> None:
        ticket = self.ticket(ago)
        held = self.model.requeue(ticket.worker, ticket, **how)
        assert self.run(self.ground.requeue(ticket.worker, ticket, **how)) == held

    @rule(ago=ages, code=codes)
    def fail(self, ago: int, code: str) -> None:
        ticket = self.ticket(ago)
        assert self.run(self.ground.fail(ticket.worker, ticket, code)) == self.model.fail(ticket.worker, ticket, code)

    # ------------------------------------------------------- everybody who is no worker

    @rule(minutes=st.sampled_from([-3, 1, 2, 4, 5, 5, 6]))
    def wind_and_reap(self, minutes: int) -> None:
        self._wind(minutes)
        assert self.run(self.ground.reap()) == self.model.reap()

    @rule(minutes=st.sampled_from([-3, 1, 2, 5, 7]), job_type=types)
    def wind_and_promote(self, minutes: int, job_type: Type) -> None:
        self._wind(minutes)
        assert self.run(self.ground.promote(job_type)) == self.model.promote(job_type)

    def _wind(self, minutes: int) -> None:
        self.model.now += minutes
        self.run(self.ground.wind(minutes))

    @rule(ago=ages)
    def cancel(self, ago: int) -> None:
        job = self.job(ago)
        assert self.run(self.ground.cancel(job)) == self.model.cancel(job)

    @rule(ago=ages)
    def replay(self, ago: int) -> None:
        """The newest jobs that have failed are tried most."""
        failed = [job.number for job in self.model.jobs.values() if job.status == "failed"]
        number = failed[-1 - ago % len(failed)] if failed else self.job(ago)
        job = self.model.replay(number)
        assert self.run(self.ground.replay(number)) == (None if job is None else job.number)

    @rule(job_type=types, closed=st.booleans())
    def pause_or_resume(self, job_type: Type, *, closed: bool) -> None:
        if closed:
            self.model.paused.add(job_type.name)
            self.run(type_store.pause(self.ground.db, job_type.name, who="model", why=None))
        else:
            self.model.paused.discard(job_type.name)
            self.run(type_store.resume(self.ground.db, job_type.name))

    @rule(ago=ages, to=st.sampled_from([*map(str, Status), None]))
    def meddle(self, ago: int, to: str | None) -> None:
        """Hand-typed SQL that fits every CHECK, but not the table of moves; None deletes the row."""
        job = self.job(ago)
        now = self.model.jobs[job].status
        if to == now or (now, to) in LEGAL or (to is None and now in TERMINAL):
            return
        with pytest.raises(asyncpg.PostgresError) as refused:
            self.run(self._meddle(self.ground.ids[job], to))
        assert refused.value.sqlstate == "PS001"

    async def _meddle(self, job_id: UUID, status: str | None) -> None:
        if status is None:
            await self.ground.db.execute("delete from penstock.jobs where job_id = $1", job_id)
            return
        await self.ground.db.execute(
            "update penstock.jobs set status = $2, claimed_by = 'me', claimed_at = penstock.now(), "
            "finished_at = case when $3 then penstock.now() end, "
            "lease_expires_at = case when $2 = 'processing' then penstock.now() end, "
            "last_error_code = 'X', last_error_at = penstock.now() where job_id = $1",
            job_id,
            status,
            status in TERMINAL,
        )

    # -------------------------------------------------------------- what must hold

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        rows = self.run(self.ground.rows())
        assert rows.keys() == self.model.jobs.keys()
        for number, job in self.model.jobs.items():
            assert _told(rows[number]) == _expected(job)
            self._absorbed(number, dict(rows[number]))

    def _absorbed(self, number: int, row: dict[str, Any]) -> None:
        """Nothing about a job changes once it has ended, but that it may say which job replays it."""
        row = {name: value for name, value in row.items() if name not in {"superseded_by_job_id", "updated_at"}}
        if number in self.ended:
            assert row == self.ended[number]
        elif row["status"] in TERMINAL:
            self.ended[number] = row

    @invariant()
    def every_failed_job_has_one_dead_letter(self) -> None:
        assert sorted(self.run(self.ground.letters())) == sorted(self.model.letters())

    @invariant()
    def the_audit_is_one_chain_of_legal_moves(self) -> None:
        trails = self.run(self.ground.trails())
        audited = {job.number: job.moves for job in self.model.jobs.values() if job.type.audited}
        assert {number: len(trail) for number, trail in trails.items()} == audited
        for trail in trails.values():
            assert [row["from_status"] for row in trail] == [None, *(row["to_status"] for row in trail[:-1])]
            assert {(row["from_status"], row["to_status"]) for row in trail[1:]} <= LEGAL

    @invariant()
    def a_worker_knows_when_it_is_needed_next(self) -> None:
        wake = self.run(store.next_wake(self.ground.db, [t.name for t in TYPES]))
        waiting = [job.run_at for job in self.model.jobs.values() if job.waits and not job.suspect]
        alone = [job for job in self.model.jobs.values() if job.waits_alone and not self.model.gated(job.type)]
        assert (wake.suspect is not None) == bool(alone)
        leases = [job.expiry for job in self.model.jobs.values() if job.expiry is not None]
        for span, moments in ((wake.due, waiting), (wake.expiry, leases)):
            if span is None or not moments:
                assert (span, moments) == (None, [])
            else:
                seconds = 60 * (min(moments) - self.model.now)
                assert seconds - 60 < span.total_seconds() <= max(seconds, 1)  # what is overdue is looked at soon


def _told(row: asyncpg.Record) -> tuple[Any, ...]:
    return (
        row["status"],
        row["ready"],
        row["suspect"],
        row["attempt_count"],
        row["reclaim_count"],
        row["claim_seq"],
        row["claimed_by"],
        row["lease_expires_at"] is not None,
        row["last_error_code"],
    )


def _expected(job: Job) -> tuple[Any, ...]:
    return (
        job.status,
        job.ready,
        job.suspect,
        job.attempts,
        job.reclaims,
        job.fence,
        job.owner,
        job.status == "processing",
        job.code,
    )


@pytest.fixture
def machine(database: Database) -> Iterator[Any]:
    """A maker of machines that share a database and an event loop."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        app = Penstock(database.dsn, notify="off")
        superuser = runner.run(asyncpg.connect(database.superuser_dsn))
        runner.run(app.open())
        yield lambda: Machine(runner, app, superuser)
        runner.run(superuser.close())
        runner.run(app.close())


@pytest.mark.contract("Q-03", "C-31", "C-13", "C-02", "C-03")
def test_no_sequence_of_statements_leads_away_from_the_model(machine: Any) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=LONG or 60,
            stateful_step_count=80 if LONG else 50,
            derandomize=not LONG,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
