"""The sync face: the same jobs for callers without an event loop, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from penstock import Penstock
from penstock.contract.errors import DatabaseUnavailable, PayloadRejected, PenstockError
from tests.engine.enqueue.callers import alchemy_url
from tests.engine.enqueue.conftest import Office, declare_types

NOOP = ("penstock_jobs", '{"job_type": "noop"}')


_OTHERS: set[threading.Thread] = set()  # of applications that another test has forgotten, until they are collected


@pytest.fixture(autouse=True)
def _count_only_our_own() -> None:
    _OTHERS.clear()
    _OTHERS.update(threading.enumerate())


def _portals() -> list[threading.Thread]:
    return [thread for thread in set(threading.enumerate()) - _OTHERS if thread.name == "penstock-portal"]


@pytest.fixture
def sync_app(office: Office) -> Penstock:
    """An application that nobody opens, as in a sync program."""
    return declare_types(Penstock(office.dsn))


async def test_a_sync_program_enqueues_without_a_connection_of_its_own(office: Office, sync_app: Penstock) -> None:
    job_id = await asyncio.to_thread(sync_app.enqueue_sync, "noop", {"n": 1}, key="k")
    many = await asyncio.to_thread(sync_app.enqueue_many_sync, "noop", [{"n": 1}, {"n": 2}], keys=["k", None])
    with pytest.raises(PayloadRejected):
        await asyncio.to_thread(sync_app.enqueue_sync, "noop", {"n": b""})
    await asyncio.to_thread(sync_app.close_sync)

    assert many[0] == job_id
    assert await office.count() == 2
    assert set(await office.ear.all()) == {NOOP}


@pytest.mark.contract("C-27", "D-33", "D-37")
async def test_a_sync_session_pokes_after_its_root_commit_and_not_before(office: Office, sync_app: Penstock) -> None:
    engine = create_engine(alchemy_url(office.dsn, "psycopg"), poolclass=NullPool)

    def work(commit: bool) -> None:
        with Session(engine) as session:
            with session.begin_nested():
                sync_app.enqueue_sync("noop", {"n": 1}, connection=session)
            sync_app.close_sync()
            session.commit() if commit else session.rollback()
            sync_app.close_sync()

    await asyncio.to_thread(work, False)
    assert await office.ear.all() == []
    await asyncio.to_thread(work, True)
    assert await office.ear.all() == [NOOP]
    assert await office.count() == 1


@pytest.mark.contract("C-27")
async def test_a_scoped_session_is_the_session_behind_it(office: Office, sync_app: Penstock) -> None:
    engine = create_engine(alchemy_url(office.dsn, "psycopg"), poolclass=NullPool)
    scoped = scoped_session(sessionmaker(engine))

    def work() -> None:
        sync_app.enqueue_sync("noop", {"n": 1}, connection=scoped)
        scoped.commit()
        scoped.remove()
        sync_app.close_sync()

    await asyncio.to_thread(work)
    assert await office.ear.all() == [NOOP]


@pytest.mark.contract("C-27")
async def test_psycopg_in_autocommit_is_poked_for_by_the_thread_of_the_sync_callers(
    office: Office, sync_app: Penstock
) -> None:
    def work() -> None:
        with psycopg.connect(office.dsn, autocommit=True) as connection:
            sync_app.enqueue_sync("noop", {"n": 1}, connection=connection)
        sync_app.close_sync()

    await asyncio.to_thread(work)
    assert await office.ear.all() == [NOOP]


async def test_twenty_threads_share_one_way_in(office: Office, sync_app: Penstock) -> None:
    def work() -> None:
        with ThreadPoolExecutor(20) as threads:
            ids = list(threads.map(lambda n: sync_app.enqueue_sync("noop", {"n": n}), range(100)))
        assert len(set(ids)) == 100
        assert len(_portals()) == 1
        sync_app.close_sync()

    await asyncio.to_thread(work)
    assert await office.count() == 100


async def test_closing_ends_the_thread_and_its_sessions_and_the_next_call_starts_anew(
    office: Office, sync_app: Penstock
) -> None:
    sessions = (
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'penstock'"
    )
    before = await office.owner.fetchval(sessions)
    for _ in range(2):
        await asyncio.to_thread(sync_app.enqueue_sync, "noop", {"n": 1})
        assert len(_portals()) == 1
        await asyncio.to_thread(sync_app.close_sync)
        assert _portals() == []
    async with asyncio.timeout(10):
        while await office.owner.fetchval(sessions) > before:
            await office.owner.execute("select pg_sleep(0.005)")


async def test_an_application_that_is_forgotten_takes_its_thread_along(office: Office) -> None:
    app = declare_types(Penstock(office.dsn))
    await asyncio.to_thread(app.enqueue_sync, "noop", {"n": 1})
    (thread,) = _portals()
    del app
    async with asyncio.timeout(10):
        while thread.is_alive():
            gc.collect()  # does nothing while another thread collects
            await asyncio.to_thread(thread.join, 0.02)


async def test_async_code_may_call_the_sync_face_without_a_deadlock(office: Office) -> None:
    job_id = office.app.enqueue_sync("noop", {"n": 1})

    assert await office.payload(job_id) == {"n": 1}


async def test_a_server_that_was_away_is_met_again_by_the_same_application(office: Office, sync_app: Penstock) -> None:
    sync_app.use_dsn("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(DatabaseUnavailable):
        await asyncio.to_thread(sync_app.enqueue_sync, "noop", {"n": 1})
    sync_app.use_dsn(office.dsn)
    await asyncio.to_thread(sync_app.enqueue_sync, "noop", {"n": 1})
    await asyncio.to_thread(sync_app.close_sync)
    assert await office.count() == 1


PROGRAM = """
import os, sys
from penstock import Penstock

app = Penstock(sys.argv[1])

@app.job("noop")
def noop(args: dict) -> None: ...

app.enqueue_sync("noop", {"n": 1})
if sys.argv[2] == "fork":
    child = os.fork()
    app.enqueue_sync("noop", {"n": 2})
    if child:
        assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize(("how", "jobs"), [("plain", 1), ("fork", 3)])
@pytest.mark.contract("C-27")
async def test_a_program_that_just_ends_has_sent_its_pokes_and_hangs_on_nothing(
    office: Office, how: str, jobs: int
) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-c", PROGRAM, office.dsn, how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PENSTOCK_POKE_MS": "300"},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert await office.count() == jobs
    assert len(await office.ear.all()) >= 1


def test_an_application_outlives_the_event_loops_it_is_used_in(dsn: str) -> None:
    """A script that calls asyncio.run twice, with an application that it never closes in between."""
    app = declare_types(Penstock(dsn))

    async def once(n: int) -> int:
        await app.enqueue("noop", {"n": n})
        count: int = await app.pool.fetchval("select count(*) from penstock.jobs")
        if n == 1:
            app.pool.terminate()  # what the end of a program does
        else:
            await app.close()
        return count

    assert asyncio.run(once(1)) == 1
    assert asyncio.run(once(2)) == 2


async def test_an_application_opened_in_another_loop_says_so(office: Office) -> None:
    with pytest.raises(PenstockError, match="another event loop"):
        await asyncio.to_thread(asyncio.run, office.app.enqueue("noop", {"n": 1}))
    assert await office.count() == 0


async def test_a_program_pays_for_nothing_that_it_does_not_use() -> None:
    heavy = {"sqlalchemy", "psycopg", "alembic", "typer", "rich", "structlog", "pydantic_settings"}
    program = f"import sys; from penstock import *; sys.exit(bool({heavy} & set(sys.modules)))"

    assert await asyncio.to_thread(subprocess.call, [sys.executable, "-c", program]) == 0


async def test_a_command_that_shows_a_table_pays_for_no_engine() -> None:
    program = "import sys, penstock.cli.jobs; sys.exit('penstock.engine' in sys.modules or 'asyncpg' in sys.modules)"

    assert await asyncio.to_thread(subprocess.call, [sys.executable, "-c", program]) == 0
