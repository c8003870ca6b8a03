"""Text at rest: the canary of a message, an output and a preference is nowhere in plain."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from penstock.apps.rewrite import homes, repository
from penstock.apps.rewrite.envelope import EnvelopeBroken
from penstock.apps.rewrite.models import PreferencesV1
from penstock.store.roles import ORCHESTRATOR, WORKER
from tests.apps.rewrite.estate import Estate, Home, classified

MESSAGE, OUTPUT, TERM = "canary-message-51", "canary-output-52", "canary-term-53"
CANARIES = (MESSAGE, OUTPUT, TERM)
TABLES = """
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname in ('penstock', 'rewrite') and c.relkind in ('r', 'p', 'v')
union all
select format('%I.%I', schemaname, viewname) from pg_views
 where schemaname = 'pg_catalog' and viewname like 'pg_stat%' and viewname not like '%progress%'
 order by 1
"""


async def holds(owner: asyncpg.Connection[Any], table: str, word: str) -> bool:
    """Whether *word* stands in a table, as text or as bytes that nobody sealed."""
    ask = f"select exists (select from {table} t where t::text ilike $1 or t::text ilike $2)"
    return bool(await owner.fetchval(ask, f"%{word}%", f"%{word.encode().hex()}%"))


async def hits(owner: asyncpg.Connection[Any], word: str) -> list[str]:
    """The tables and views in which *word* stands."""
    return [row["name"] for row in await owner.fetch(TABLES) if await holds(owner, row["name"], word)]


async def live(estate: Estate) -> Home:
    """A home with a preference, a completed request and one that has failed."""
    home = await estate.home()
    async with estate.at(ORCHESTRATOR, None) as connection:
        key = await homes.home_key(connection, estate.keyring, home.home_id)
        await homes.put_preferences(connection, key, home.home_id, home.recipient, "warm", [TERM])
        party = await repository.load_party(connection, home.home_id, home.sender, home.recipient)
    wished = party.preferences(key)
    assert wished == PreferencesV1(tone="warm", blocked_terms=(TERM,))
    await estate.completed(home, OUTPUT, text=MESSAGE, preferences=wished)
    unit, _ = await estate.claimed(home, text=MESSAGE, preferences=wished)
    await estate.fail(unit)
    return home


@pytest.mark.contract("A-82", "A-83")
async def test_text_stands_in_no_table_and_no_view_of_the_server(estate: Estate, superuser_dsn: str) -> None:
    home = await live(estate)
    superuser = await asyncpg.connect(superuser_dsn)
    for canary in CANARIES:
        assert await hits(superuser, canary) == []
    # The search finds what is there: an id as text, a text that somebody stored without sealing it.
    assert "penstock.jobs" in await hits(superuser, str(home.home_id))
    await estate.owner.execute("update rewrite.preferences set blocked_terms = $1", TERM.encode())
    assert await hits(superuser, TERM) == ["rewrite.preferences"]
    await superuser.close()


@pytest.mark.contract("A-82")
async def test_a_statement_that_the_database_refuses_tells_no_text(estate: Estate) -> None:
    """Neither the message nor the detail of an error repeats what was to be stored."""
    home = await estate.home()
    unit = await estate.received(home, MESSAGE)
    key = await estate.key(home.home_id)
    new = repository.NewRequest(
        home.home_id, home.sender, home.recipient, unit.request, classified(), rewrite_request_id=unit.request_id
    )
    with pytest.raises(asyncpg.PostgresError) as caught:
        async with estate.at(ORCHESTRATOR, home.home_id) as connection:
            await repository.insert_request(connection, key, new)
    error = caught.value
    told = " ".join(str(part) for part in (error, *vars(error).values()) if part)
    assert MESSAGE not in told
    assert MESSAGE.encode().hex() not in told
    assert MESSAGE not in repr(new)


@pytest.mark.contract("L-17", "A-08")
async def test_a_snapshot_keeps_what_was_wished_then(estate: Estate) -> None:
    home = await estate.home()
    key = await estate.key(home.home_id)
    then = PreferencesV1(tone="warm", blocked_terms=("loud",))
    unit = await estate.queued(home, preferences=then)
    async with estate.at(ORCHESTRATOR, None) as connection:
        await homes.put_preferences(connection, key, home.home_id, home.recipient, "dry", ["quiet"])
        now = (await repository.load_party(connection, home.home_id, home.sender, home.recipient)).preferences(key)
    async with estate.at(WORKER, None) as connection:
        loaded = await repository.load_job(connection, unit.job, home.home_id)
    assert loaded is not None
    assert loaded.preferences(key) == then == loaded.request(key).preferences
    assert now == PreferencesV1(tone="dry", blocked_terms=("quiet",))


@pytest.mark.contract("A-08", "A-76")
async def test_a_sealed_row_copied_over_another_is_noticed(estate: Estate) -> None:
    home = await estate.home()
    first, second = await estate.queued(home, "one"), await estate.queued(home, "two")
    await estate.owner.execute("alter table rewrite.rewrite_requests disable trigger decided")
    await estate.owner.execute(
        "update rewrite.rewrite_requests t set rewrite_request = s.rewrite_request from rewrite.rewrite_requests s "
        "where s.rewrite_request_id = $1 and t.rewrite_request_id = $2",
        first.request_id,
        second.request_id,
    )
    key = await estate.key(home.home_id)
    async with estate.at(WORKER, None) as connection:
        good = await repository.load_job(connection, first.job, home.home_id)
        bad = await repository.load_job(connection, second.job, home.home_id)
    assert good is not None
    assert bad is not None
    assert good.request(key).message_text == "one"
    with pytest.raises(EnvelopeBroken, match=f"rewrite_requests/{second.request_id}"):
        bad.request(key)


async def test_two_who_make_the_key_of_a_home_get_the_same(estate: Estate, dsn: str) -> None:
    home = await estate.home()
    await estate.owner.execute("delete from rewrite.home_keys")
    mine, sealed = await asyncpg.connect(dsn), []
    async with mine.transaction(), estate.at(ORCHESTRATOR, None) as theirs:
        first = await homes.home_key(theirs, estate.keyring, home.home_id, create=True)
        sealed.append(first.seal(b"x", place="p"))
    async with mine.transaction():
        second = await homes.home_key(mine, estate.keyring, home.home_id, create=True)
    assert second.open(sealed[0], place="p") == b"x"
    assert await estate.owner.fetchval("select count(*) from rewrite.home_keys") == 1
    await mine.close()


async def test_a_home_without_a_key_is_not_read(estate: Estate) -> None:
    home = await estate.home()
    await estate.owner.execute("delete from rewrite.home_keys")
    async with estate.at(WORKER, None) as connection:
        with pytest.raises(homes.HomeErased):
            await homes.home_key(connection, estate.keyring, home.home_id)
