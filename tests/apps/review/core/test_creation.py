"""Creation: one key, one review, one job; new work only where the contract allows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from penstock.apps.review import Recipient
from penstock.apps.review.models import ChannelKind
from penstock.contract.errors import EnqueueRefused, IdempotencyKeyReused, NotFound, RecipientInvalid, RerunNotAllowed
from penstock.store.roles import ORCHESTRATOR
from tests.apps.review.core.conftest import TO, World


async def end(world: World, status: str) -> None:
    """Bring every open job to this end, without its handlers."""
    await world.owner.execute(
        "update penstock.jobs set status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'w', claimed_at = "
        "penstock.now(), lease_expires_at = penstock.now() + interval '1 hour' where status = 'queued'"
    )
    async with world.owner.transaction():
        # What ends here has told nobody, and the rule that asks for it is not what is tested.
        await world.owner.execute("alter table penstock.jobs disable trigger user")
        await world.owner.execute(
            "update penstock.jobs set status = $1, finished_at = penstock.now(), lease_expires_at = null, "
            "last_error_code = 'NOT_FOUND', last_error_at = penstock.now() where status = 'processing'",
            status,
        )
        await world.owner.execute("alter table penstock.jobs enable trigger user")


@pytest.mark.contract("N-01", "C-49")
async def test_a_review_is_made_with_one_job_under_the_key_of_the_caller(world: World) -> None:
    made = await world.create("deploy-17", label="v1")
    assert (made.created, made.review.status, made.review.stage) == (True, "in_progress", "fetch")
    assert (made.review.changelist_id, made.review.review_version, made.review.label) == ("shop:4f1c2aa", 1, "v1")
    (job,) = await world.owner.fetch("select * from penstock.jobs")
    assert (job["job_id"], job["job_type"]) == (made.review.job_id, "review_processing")
    assert job["idempotency_key"] == "review_processing:deploy-17"
    assert job["payload"] == f'{{"review_id": "{made.review.review_id}"}}', "an id, and no word of anything else"


@pytest.mark.contract("N-01")
async def test_without_a_key_that_can_be_one_nothing_is_made(world: World) -> None:
    keys: list[Any] = [None, "", "x" * 401, 17, "a\x00b", "x#replay-1", "x#redeliver-2"]
    for key in keys:
        with pytest.raises(EnqueueRefused, match="key"):
            await world.create(key)
    assert await world.count("penstock.jobs") == 0


@pytest.mark.contract("N-02", "N-33")
async def test_the_key_of_a_job_is_unique_in_the_database(world: World) -> None:
    made = await world.create()
    indexes = await world.owner.fetch(
        "select indexdef from pg_indexes where schemaname = 'penstock' and tablename = 'jobs' "
        "and indexdef like 'CREATE UNIQUE INDEX % (idempotency_key)%'"
    )
    assert len(indexes) == 1
    with pytest.raises(asyncpg.UniqueViolationError):
        await world.owner.execute(
            "insert into penstock.jobs (job_id, created_at, updated_at, max_attempts, ready, job_type, stage, "
            "idempotency_key, payload) select gen_random_uuid(), created_at, updated_at, max_attempts, ready, "
            "job_type, stage, idempotency_key, payload from penstock.jobs where job_id = $1",
            made.review.job_id,
        )
    with pytest.raises(asyncpg.UniqueViolationError):
        await world.owner.execute("insert into review.creation_keys values ('k1', $1)", made.review.review_id)


@pytest.mark.contract("N-03", "N-34", "C-48")
async def test_twenty_requests_at_once_with_one_key_make_one_job(world: World) -> None:
    made = await asyncio.gather(*(world.create("same", label=f"try {n}") for n in range(20)))
    assert [await world.count(f"{table}") for table in ("penstock.jobs", "review.reviews")] == [1, 1]
    assert len({one.review.job_id for one in made}) == 1
    assert sum(one.created for one in made) == 1
    assert len({one.review.label for one in made}) == 1, "everybody is told of the one that was made"


@pytest.mark.contract("N-03", "C-47")
async def test_twenty_requests_at_once_with_keys_of_their_own_for_one_version_make_one_job(world: World) -> None:
    made = await asyncio.gather(*(world.create(f"key {n}") for n in range(20)))
    assert (await world.count("penstock.jobs"), len({one.review.job_id for one in made})) == (1, 1)
    again = await world.create("key 7", review_version=9)
    assert (again.created, again.review.review_id) == (False, made[0].review.review_id), "the key stands for it"


@pytest.mark.contract("N-34", "C-47")
async def test_a_known_key_returns_the_first_record_whatever_comes_with_it(world: World) -> None:
    first = await world.create()
    others: list[dict[str, Any]] = [
        {"review_version": 2, "rerun": True}, {"changelist": "shop:other"}, {"recipients": []}, {"label": 17}
    ]  # fmt: skip
    for asked in others:
        again = await world.create(**asked)
        assert (again.created, again.review) == (False, first.review)
    assert await world.count("penstock.jobs") == 1


@pytest.mark.contract("N-04", "N-40")
async def test_the_same_version_after_success_is_no_new_work(world: World) -> None:
    first = await world.create()
    done = await world.succeed(first)
    calls = len(world.source.fetched), len(world.critic.asked), world.channel.sends
    for rerun in (False, True):
        again = await world.create(f"another {rerun}", rerun=rerun)
        assert (again.created, again.review) == (False, done), "with everything that was found"
    await world.harness.work_until_idle()
    assert (len(world.source.fetched), len(world.critic.asked), world.channel.sends) == calls
    assert await world.count("penstock.jobs") == 1


@pytest.mark.contract("N-05", "C-47")
@pytest.mark.parametrize(
    ("rerun", "version", "new"),
    [
        (False, 2, "refused"), (False, 3, "same"), (False, 4, "refused"),
        (True, 2, "refused"), (True, 3, "same"), (True, 4, "made"),
    ],
)  # fmt: skip
async def test_after_success_only_an_explicit_higher_version_makes_work(
    world: World, rerun: bool, version: int, new: str
) -> None:
    first = await world.create(review_version=3)
    await end(world, "completed")
    if new == "refused":
        with pytest.raises(RerunNotAllowed, match=r"shop:4f1c2aa"):
            await world.create("second", review_version=version, rerun=rerun)
    else:
        made = await world.create("second", review_version=version, rerun=rerun)
        assert (made.created, made.review.review_id == first.review.review_id) == (new == "made", new == "same")
    assert await world.count("penstock.jobs") == (2 if new == "made" else 1)


@pytest.mark.contract("C-47")
@pytest.mark.parametrize("status", ["queued", "failed", "canceled"])
async def test_before_any_success_a_higher_version_is_an_ordinary_review_and_a_lower_one_is_refused(
    world: World, status: str
) -> None:
    await world.create(review_version=3)
    if status != "queued":
        await end(world, status)
    made = await world.create("second", review_version=4)
    assert made.created
    with pytest.raises(RerunNotAllowed, match="above 4"):
        await world.create("third", review_version=2)
    known = await world.create("fourth", review_version=3)
    assert (known.created, known.review.review_version) == (False, 3), "a version that is there is returned"


@pytest.mark.contract("N-06", "N-41")
async def test_a_rerun_is_a_new_review_of_the_same_changelist_with_recipients_of_its_own(world: World) -> None:
    first = await world.create(review_version=3)
    await world.succeed(first)
    before = await world.owner.fetch("select * from review.deliveries order by delivery_id")
    second = await world.create("k2", review_version=4, rerun=True, label="v4")
    await world.succeed(second)
    assert (second.created, second.review.changelist_id) == (True, first.review.changelist_id)
    assert (second.review.review_version, second.review.label) == (4, "v4")
    rows = await world.owner.fetch("select * from review.deliveries order by review_version")
    assert [row["review_version"] for row in rows] == [3, 4]
    assert rows[:1] == before, "what was told of the version before stays as it was"
    assert len({row["token"] for row in rows}) == 2
    assert len(world.channel.sent) == 2


@pytest.mark.contract("C-47")
async def test_other_changelists_have_versions_of_their_own(world: World) -> None:
    await world.create(review_version=7)
    await end(world, "completed")
    assert (await world.create("k2", "shop:other")).created


# ---------------------------------------------------------------------------- bad input


CHANGELISTS: list[tuple[Any, str]] = [
    ("nowhere:17", "there are shop"), ("shop:--output=/etc/passwd", "dash"), ("shop", "<source>:<ref>"),
    ("shop:", "<source>:<ref>"), ("shop:a\nb", "<source>:<ref>"), ("/srv/git:main", "<source>:<ref>"),
    ("shop:" + "x" * 300, "<source>:<ref>"), ("shop:\ud800", "<source>:<ref>"), (17, "<source>:<ref>"),
]  # fmt: skip


async def test_a_changelist_that_cannot_be_is_refused(world: World) -> None:
    for changelist, words in CHANGELISTS:
        with pytest.raises(EnqueueRefused, match=words):
            await world.create("k1", changelist)
    assert await world.count("review.creation_keys") == 0


async def test_a_version_is_a_whole_number_from_one_on(world: World) -> None:
    for version in (0, -1, 2**31, 1.0, "1", True, None):
        with pytest.raises(EnqueueRefused, match="review_version"):
            await world.create(review_version=version)


async def test_a_label_is_short_and_printable(world: World) -> None:
    for label in ("", "x" * 51, "a\nb", 4):
        with pytest.raises(EnqueueRefused, match="label"):
            await world.create(label=label)


HIDDEN = "who.is.this@private.example"


RECIPIENTS: list[Any] = [
    [], None, "dev@example.org", [TO] * 2, [TO, {**TO, "address": " DEV@Example.org "}],
    [{"channel": "pigeon", "address": HIDDEN}], [{"channel": "smtp", "address": ""}], [{"address": HIDDEN}],
    [{"channel": "smtp", "address": HIDDEN, "cc": HIDDEN}], [{"channel": "smtp", "address": f"{HIDDEN}\x00"}],
    [{"channel": "smtp", "address": HIDDEN.replace("@", " at ")}], [{"channel": "smtp", "address": "\ud800@x.org"}],
    [{"channel": "webhook", "address": "http://10.0.0.1/hook"}], [{"channel": "webhook", "address": "file:///x"}],
    [{"channel": "webhook", "address": "https://127.0.0.1/hook"}], [17],
    [{**TO, "address": f"dev{n}@example.org"} for n in range(101)],
]  # fmt: skip


async def test_recipients_that_cannot_be_told_once_each_are_refused_without_their_address(world: World) -> None:
    for recipients in RECIPIENTS:
        with pytest.raises(RecipientInvalid) as refused:
            await world.create(recipients=recipients)
        assert HIDDEN not in str(refused.value)
    assert [await world.count(f"review.{table}") for table in ("reviews", "recipients", "creation_keys")] == [0, 0, 0]


async def test_recipients_are_kept_as_they_were_named(world: World) -> None:
    spare = {**TO, "address": "ops@example.org", "required": False}
    named = [Recipient(channel=ChannelKind.SMTP, address="Dev@Example.org"), spare]
    made = await world.create(recipients=named)
    rows = await world.owner.fetch("select recipient, required from review.recipients order by recipient")
    assert [tuple(row) for row in rows] == [("dev@example.org", True), ("ops@example.org", False)]
    told = [(one["required"], one["status"]) for one in made.review.deliveries]
    assert told == [(True, "pending"), (False, "pending")]


async def test_nobody_has_a_review_that_was_never_asked_for(world: World) -> None:
    with pytest.raises(NotFound, match="penstock review list"):
        await world.orchestrator.read_review(uuid4())


# ---------------------------------------------------------------- the caller's transaction


async def test_in_a_transaction_of_the_caller_review_and_job_come_and_go_with_it(
    world: World, role_dsn: Callable[[str], str]
) -> None:
    caller = await asyncpg.connect(role_dsn(ORCHESTRATOR))
    transaction = caller.transaction()
    await transaction.start()
    await world.create(connection=caller)
    assert await world.count("penstock.jobs") == 0, "nobody else sees it yet"
    await transaction.rollback()
    assert [await world.count(table) for table in ("penstock.jobs", "review.creation_keys")] == [0, 0]

    async with caller.transaction():
        made = await world.create(review_version=5, connection=caller)
        with pytest.raises(RerunNotAllowed):
            await world.create("k2", review_version=4, connection=caller)
    await caller.close()
    assert (await world.read(made)).status == "in_progress", "a refusal leaves the transaction good"
    assert await world.count("penstock.jobs") == 1


async def test_inside_a_transaction_of_the_application_it_belongs_to_it(world: World) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what is tested
        async with world.orchestrator.app.transaction():
            await world.create()
            raise ZeroDivisionError
    assert await world.count("review.reviews") == 0


async def test_a_connection_of_another_driver_is_refused(world: World) -> None:
    with pytest.raises(EnqueueRefused, match="asyncpg"):
        await world.create(connection=object())


async def test_a_key_whose_job_belongs_to_no_review_any_more_is_told_as_such(world: World) -> None:
    """As after the tables of reviews were taken down and up again: the engine's keys stay."""
    await world.owner.execute("alter table penstock.jobs disable trigger user")
    await world.owner.execute("select penstock.enqueue('review_processing', '{\"review_id\": null}', 'k1')")
    await world.owner.execute("alter table penstock.jobs enable trigger user")
    with pytest.raises(IdempotencyKeyReused, match="new key"):
        await world.create("k1")
    assert await world.count("review.reviews") == 0
