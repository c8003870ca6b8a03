"""Requests and what is frozen for them: what the tables refuse, whoever types the statement."""

from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from penstock.apps.rewrite import homes, repository
from penstock.apps.rewrite.models import PreferencesV1
from penstock.store.roles import ORCHESTRATOR
from tests.apps.rewrite.estate import Estate, Unit, asked, classified

REFUSED = "PS001"
FREE = {"status", "failure_code", "status_changed_at", "rewrite_completed_at", "sender_reveal_at"}
FROZEN = ["recipient_snapshots", "recipient_snapshot_members", "recipient_preference_snapshots"]
LABELS = (
    '{"classifier_result": {"classifier_version": "v", "detected_language": null, "language_confidence": "low", '
    '"topics": ["noise"], "intent": "x", "rewrite_strength": "light_touch", "safety_flags": []}}'
)
# A copy of a request under a new id, with one column changed.
COPY = """
insert into rewrite.rewrite_requests
select (jsonb_populate_record(r, jsonb_build_object('rewrite_request_id', gen_random_uuid()) || $2::jsonb)).*
  from rewrite.rewrite_requests r where rewrite_request_id = $1
"""


async def change(estate: Estate, unit: Unit, column: str, value: str) -> None:
    await estate.owner.execute(
        f"update rewrite.rewrite_requests set {column} = {value} where rewrite_request_id = $1", unit.request_id
    )


async def refusal(estate: Estate, statement: str, *arguments: Any) -> str | None:
    """The SQLSTATE that a statement of the owner ends with; None: it was taken."""
    try:
        async with estate.owner.transaction():
            await estate.owner.execute(statement, *arguments)
    except asyncpg.PostgresError as error:
        return error.sqlstate
    return None


@pytest.mark.contract("A-26", "C-32")
async def test_a_request_id_is_used_once_and_by_one_home(estate: Estate) -> None:
    unit = await estate.received(await estate.home())
    other = await estate.home()
    key = await estate.key(other.home_id)
    again = repository.NewRequest(
        other.home_id, other.sender, other.recipient, asked(), classified(), rewrite_request_id=unit.request_id
    )
    with pytest.raises(asyncpg.UniqueViolationError):
        async with estate.at(ORCHESTRATOR, other.home_id) as connection:
            await repository.insert_request(connection, key, again)


@pytest.mark.contract("L-16", "A-70", "A-29")
async def test_both_snapshots_are_made_with_the_request_and_at_its_time(estate: Estate) -> None:
    home = await estate.home()
    unit = await estate.received(home)
    rows = await estate.owner.fetch(
        "select s.created_at, p.created_at, r.created_at, m.user_id from rewrite.rewrite_requests r "
        "join rewrite.recipient_snapshots s using (recipient_snapshot_id) "
        "join rewrite.recipient_snapshot_members m using (recipient_snapshot_id) "
        "join rewrite.recipient_preference_snapshots p using (recipient_preference_snapshot_id) "
        "where r.rewrite_request_id = $1",
        unit.request_id,
    )
    ((snapshot, preferences, request, member),) = rows
    assert snapshot == preferences == request
    assert member == home.recipient
    for column in ("recipient_snapshot_id", "recipient_preference_snapshot_id"):
        assert await refusal(estate, COPY, unit.request_id, f'{{"{column}": null}}') == "23502"
        assert await refusal(estate, COPY, unit.request_id, f'{{"{column}": "{uuid4()}"}}') == "23503"


@pytest.mark.contract("A-29", "L-16", "L-17")
@pytest.mark.parametrize("table", FROZEN)
async def test_a_snapshot_refuses_every_change(estate: Estate, table: str) -> None:
    await estate.received(await estate.home(), preferences=PreferencesV1(tone="warm"))
    column = "locale_raw" if table == "recipient_preference_snapshots" else "home_id"
    assert await refusal(estate, f"update rewrite.{table} set {column} = {column}") == REFUSED
    assert await refusal(estate, f"delete from rewrite.{table}") == REFUSED
    assert await estate.owner.fetchval(f"select count(*) from rewrite.{table}") == 1


@pytest.mark.contract("C-32", "L-06")
async def test_a_snapshot_holds_exactly_one_member(estate: Estate) -> None:
    home = await estate.home()
    unit = await estate.received(home)
    more = "insert into rewrite.recipient_snapshot_members values ($1, $2, $3)"
    snapshot = unit.frozen.recipient_snapshot_id
    assert await refusal(estate, more, snapshot, home.home_id, home.sender) == "23505"
    assert await refusal(estate, COPY, unit.request_id, f'{{"recipient_user_id": "{home.sender}"}}') == "23503"


@pytest.mark.contract("A-71", "A-09", "A-70")
async def test_who_moves_in_or_out_later_changes_no_target(estate: Estate) -> None:
    home = await estate.home()
    unit = await estate.received(home)
    newcomer = uuid4()
    async with estate.at(ORCHESTRATOR, home.home_id) as connection:
        await homes.put_member(connection, home.home_id, newcomer, "fr")
        await homes.remove_member(connection, home.home_id, home.recipient)
        members = await connection.fetch("select user_id from rewrite.home_members")
        targets = await connection.fetch(
            "select user_id from rewrite.recipient_snapshot_members where recipient_snapshot_id = $1",
            unit.frozen.recipient_snapshot_id,
        )
    assert {row["user_id"] for row in members} == {home.sender, newcomer}
    assert [row["user_id"] for row in targets] == [home.recipient]


@pytest.mark.contract("A-30", "L-09", "L-27", "L-29", "L-15")
async def test_nothing_that_was_decided_for_a_request_can_be_changed(estate: Estate) -> None:
    """Every column but those of its end; a column that is added later must be decided about here."""
    unit = await estate.received(await estate.home(), idempotency_key="k", fingerprint=b"f")
    columns = await estate.owner.fetch(
        "select attname, format_type(atttypid, null) as kind from pg_attribute "
        "where attrelid = 'rewrite.rewrite_requests'::regclass and attnum > 0 and not attisdropped"
    )
    others = {"uuid": "gen_random_uuid()", "bytea": "'other'", "jsonb": "'{}'", "timestamp with time zone": "now()"}
    known = {
        "surface": "'other'", "rewrite_strength": "'full_reframe'", "source_locale": "'fr'", "target_locale": "'fr'",
        "lane": "'same_language'",
    }  # fmt: skip
    for name, kind in columns:
        if name in FREE:
            continue
        with pytest.raises(asyncpg.PostgresError) as caught:
            await change(estate, unit, name, known.get(name) or others.get(kind, "'xx'"))
        assert (name, caught.value.sqlstate) == (name, REFUSED)
    await change(estate, unit, "sender_reveal_at", "now()")


@pytest.mark.contract("A-30", "L-09", "L-27")
@pytest.mark.parametrize("word", ["unknown", "und", "", "EN", "en-US", "e"])
@pytest.mark.parametrize("column", ["source_locale", "target_locale"])
async def test_a_locale_is_a_normalized_language_and_never_unknown(estate: Estate, column: str, word: str) -> None:
    unit = await estate.received(await estate.home())
    changed = f'{{"{column}": "{word}", "lane": "cross_language"}}'
    assert await refusal(estate, COPY, unit.request_id, changed) in ("23514", "22001")
    assert await refusal(estate, COPY, unit.request_id, f'{{"{column}": null}}') == "23502"
    assert await refusal(estate, COPY, unit.request_id, f'{{"{column}": "nl"}}') is None


@pytest.mark.contract("L-28", "L-02", "L-03")
@pytest.mark.parametrize(
    ("source", "target", "lane"),
    [("en", "en", "same_language"), ("en", "es", "cross_language"), ("fil", "en", "cross_language")],
)
async def test_the_lane_follows_from_the_locales_alone(estate: Estate, source: str, target: str, lane: str) -> None:
    home = await estate.home()
    unit = await estate.received(home, source=source, target=target)
    assert (await estate.request_row(unit))["lane"] == lane
    wrong = {"same_language": "cross_language", "cross_language": "same_language"}[lane]
    assert await refusal(estate, COPY, unit.request_id, f'{{"lane": "{wrong}"}}') == "23514"


@pytest.mark.contract("L-22", "C-38")
async def test_raw_locales_are_kept_beside_the_normalized_ones(estate: Estate) -> None:
    unit = await estate.received(await estate.home(), source_locale_raw="en-NZ", target_locale_raw="es-MX")
    row = await estate.request_row(unit)
    assert (row["source_locale_raw"], row["target_locale_raw"]) == ("en-NZ", "es-MX")
    assert (row["source_locale"], row["target_locale"]) == ("en", "es")


@pytest.mark.contract("Q-21", "Q-22")
@pytest.mark.parametrize(
    ("column", "words"),
    [("surface", ["weekly_harmony", "direct_message", "other"]), ("rewrite_strength", ["light_touch", "full_reframe"])],
)
async def test_surface_and_strength_take_the_words_of_the_contract(
    estate: Estate, column: str, words: list[str]
) -> None:
    unit = await estate.received(await estate.home())
    for word in words:
        assert await refusal(estate, COPY, unit.request_id, f'{{"{column}": "{word}"}}') is None
    for word in ("elsewhere", "", words[0].upper()):
        assert await refusal(estate, COPY, unit.request_id, f'{{"{column}": "{word}"}}') == "23514"


@pytest.mark.contract("A-13", "A-67")
@pytest.mark.parametrize("status", ["queued", "completed", "failed", "canceled"])
async def test_a_request_begins_as_received(estate: Estate, status: str) -> None:
    unit = await estate.received(await estate.home())
    end = {"completed": ', "rewrite_completed_at": "2026-01-01"', "failed": ', "failure_code": "rewrite_unavailable"'}
    changed = f'{{"status": "{status}"{end.get(status, "")}}}'
    assert await refusal(estate, COPY, unit.request_id, changed) == REFUSED
    assert await refusal(estate, COPY, unit.request_id, "{}") is None


@pytest.mark.contract("A-13")
@pytest.mark.parametrize("ended", ["completed", "failed", "canceled"])
async def test_a_request_that_has_ended_stays_so(estate: Estate, ended: str) -> None:
    home = await estate.home()
    if ended == "completed":
        unit = await estate.completed(home)
    else:
        unit = await estate.queued(home)
        if ended == "failed":
            await estate.claim()
            await estate.fail(unit)
        else:
            await estate.owner.execute("select penstock.cancel($1, 'op', 'x')", unit.job)
    assert (await estate.request_row(unit))["status"] == ended
    for word in {"received", "queued", "completed", "failed", "canceled"} - {ended}:
        with pytest.raises(asyncpg.PostgresError, match=f"is {ended} and cannot become {word}"):
            await change(estate, unit, "status", f"'{word}'")
    assert await refusal(estate, "delete from rewrite.rewrite_requests") == REFUSED


@pytest.mark.contract("A-67", "A-66")
async def test_a_request_is_completed_only_with_its_output_and_its_time(estate: Estate) -> None:
    unit, _ = await estate.claimed(await estate.home())
    with pytest.raises(asyncpg.PostgresError, match="has no output"):
        await change(estate, unit, "status", "'completed', rewrite_completed_at = penstock.now()")
    with pytest.raises(asyncpg.CheckViolationError):
        await change(estate, unit, "status", "'completed'")
    with pytest.raises(asyncpg.PostgresError, match="with its status or not at all"):
        await change(estate, unit, "rewrite_completed_at", "penstock.now()")


@pytest.mark.contract("A-68", "A-47")
async def test_a_failure_has_the_one_generic_code_and_no_other(estate: Estate) -> None:
    unit = await estate.queued(await estate.home())
    for code in ("'openai said no'", "'SCHEMA_INVALID'", "null"):
        with pytest.raises(asyncpg.CheckViolationError):
            await change(estate, unit, "status", f"'failed', failure_code = {code}")
    await change(estate, unit, "status", "'failed', failure_code = 'rewrite_unavailable'")


@pytest.mark.contract("Q-41", "C-39", "A-82")
@pytest.mark.parametrize(
    "changed",
    [
        '{"classifier_result": {"message_text": "turn it down"}}',
        '{"classifier_result": "turn it down"}',
        LABELS.replace("noise", "turn it down"),
        LABELS.replace("noise", "音を下げてください"),
    ],
)
async def test_a_classifier_result_holds_labels_and_no_sentence(estate: Estate, changed: str) -> None:
    unit = await estate.received(await estate.home())
    assert await refusal(estate, COPY, unit.request_id, changed) == "23514"
    assert await refusal(estate, COPY, unit.request_id, LABELS) is None


@pytest.mark.contract("L-06", "A-08")
@pytest.mark.parametrize("side", ["sender", "recipient"])
async def test_a_request_is_between_two_members_of_its_home(estate: Estate, side: str) -> None:
    home, other = await estate.home(), await estate.home()
    mixed = type(home)(home.home_id, other.sender if side == "sender" else home.sender,
                       other.recipient if side == "recipient" else home.recipient)  # fmt: skip
    with pytest.raises(asyncpg.PostgresError, match="must be members of home"):
        await estate.received(mixed)
    await estate.received(home)


@pytest.mark.contract("A-37")
async def test_an_idempotency_key_stands_for_one_request_of_its_sender(estate: Estate) -> None:
    home = await estate.home()
    key = await estate.key(home.home_id)
    print_ = key.fingerprint(b"turn it down")
    unit = await estate.received(home, idempotency_key="abc", fingerprint=print_)
    with pytest.raises(asyncpg.UniqueViolationError):
        await estate.received(home, idempotency_key="abc", fingerprint=print_)
    async with estate.at(ORCHESTRATOR, None) as connection:
        found = await repository.find_by_key(connection, home.home_id, home.sender, "abc")
        nobody = await repository.find_by_key(connection, home.home_id, home.recipient, "abc")
    assert found is not None
    assert (found.rewrite_request_id, found.fingerprint, nobody) == (unit.request_id, print_, None)
    assert (
        key.fingerprint(b"turn it up")
        != print_
        != (await estate.key((await estate.home()).home_id)).fingerprint(b"turn it down")
    )
