"""The batch lane end to end: out in groups, back one by one, each output in its own slot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.apps.rewrite import execution
from penstock.apps.rewrite.classifier import detect
from penstock.apps.rewrite.evaluation import evaluate_rewrite
from penstock.emulator.openai import lines
from tests.apps.rewrite.conftest import MakeWorld, World
from tests.support.emulator import BATCH_SECONDS

DONE = ("completed", "completed", None)


@pytest.mark.contract("A-11", "L-32", "A-66", "L-59", "Q-14")
async def test_a_complaint_goes_out_and_comes_back_rewritten(world: World) -> None:
    sent = await world.send(await world.home("en-US", "es-MX"))
    await world.through()

    assert await world.ends() == [DONE]
    assert await world.trail(sent) == ["queued", "processing", "batch_submitted", "completed"]
    output = await world.output(sent)
    assert output is not None
    assert (output.output_locale, sent.echo in output.rewritten_text) == ("es", True)
    assert output.rewrite_completed_at == (await world.request(sent))["rewrite_completed_at"]


@pytest.mark.contract("L-31", "L-43", "A-10", "A-31", "L-30")
async def test_both_lanes_end_in_the_language_of_the_recipient_with_one_output_each(world: World) -> None:
    home = {code: await world.home("en", code) for code in ("en", "es", "de", "ja")}
    sents = {code: await world.send(home[code], "en") for code in home}
    await world.through()

    assert await world.slots() == len(sents)
    for code, sent in sents.items():
        output = await world.output(sent)
        assert output is not None
        assert (output.output_locale, detect(output.rewritten_text).language) == (code, code)
        assert ("translating" in world.line_of(sent)) is (code != "en")


@pytest.mark.contract("Q-73", "Q-74", "A-40", "L-10", "A-42")
async def test_each_combination_of_route_lane_and_locales_travels_in_a_batch_of_its_own(make_world: MakeWorld) -> None:
    rule = {"when": {"surface": "other"}, "route": {"model": "gpt-5.2"}}
    world: World = await make_world(rules=[rule])
    english, spanish = await world.home("en", "en"), await world.home("en", "es")
    for home in (english, spanish):
        await world.send(home)
        await world.send(home)
    await world.send(spanish, "es")
    await world.send(spanish, surface="other")
    await world.run_submitter()

    rows = await world.owner.fetch(
        "select model, prompt_version, lane, source_locale, target_locale, count(*) from penstock.batches "
        "join penstock.batch_items using (batch_id) group by batch_id, 1, 2, 3, 4, 5 order by 1, 3, 4, 5"
    )
    assert [tuple(row) for row in rows] == [
        ("gpt-5-mini", "v1", "cross_language", "en", "es", 2),
        ("gpt-5-mini", "v1", "same_language", "en", "en", 2),
        ("gpt-5-mini", "v1", "same_language", "es", "es", 1),
        ("gpt-5.2", "v1", "cross_language", "en", "es", 1),
    ]
    assert {end[0] for end in await world.ends()} == {"batch_submitted"}
    assert sorted(json.loads(asked[0])["model"] for asked in world.lines()) == ["gpt-5-mini"] * 3 + ["gpt-5.2"]


@pytest.mark.contract("A-08", "L-13", "A-56", "L-50", "Q-76")
async def test_two_homes_share_a_batch_and_nothing_else(world: World) -> None:
    homes = [await world.home("en", "de") for _ in range(3)]
    sents = [await world.send(home) for home in homes for _ in range(2)]
    await world.run_submitter()

    (asked,) = world.lines()
    seen = [[sent.canary for sent in sents if sent.canary in line] for line in asked]
    assert sorted(seen) == sorted([sent.canary] for sent in sents), "one message per line, each in one line"

    world.emulator.batches[0].plan.add("shuffle")
    await world.pass_time(seconds=BATCH_SECONDS)
    await world.run_collector()
    for sent in sents:
        output = await world.output(sent)
        assert output is not None
        assert [other.echo for other in sents if other.echo in output.rewritten_text] == [sent.echo]
        assert await world.trail(sent) == ["queued", "processing", "batch_submitted", "completed"]
    rows = await world.owner.fetch("select o.*, r.home_id as asked from rewrite.rewrite_outputs o join "
                                   "rewrite.rewrite_requests r using (rewrite_request_id)")  # fmt: skip
    assert all(row["home_id"] == row["asked"] for row in rows)
    assert await world.orchestrator.read_output(homes[1].home_id, sents[0].request_id) is None


@pytest.mark.contract("L-08", "L-53", "Q-38")
async def test_the_same_words_to_two_people_are_two_questions_and_two_outputs(world: World) -> None:
    home = await world.home("en", "en")
    other = await world.join(home, "en-GB")
    first = await world.send(home)
    text = "Please close the door at night."
    for recipient in (home.recipient, other):
        assert (await world.submit(home, text, recipient_user_ids=[recipient])).accepted
    await world.through()

    (asked,) = world.lines()
    assert sum(text in line for line in asked) == 2
    assert json.loads((await world.job(first))["routing_decision"])["cache_eligible"] is True
    assert await world.slots() == 3
    targets = await world.owner.fetch("select recipient_user_id from rewrite.rewrite_outputs")
    assert {row[0] for row in targets} == {home.recipient, other}


@pytest.mark.contract("A-98")
async def test_every_output_keeps_the_time_of_its_own_item(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(1_800_000_000, 1_900_000_000, 77))
    body: Any = vars(lines)["answer_body"]
    monkeypatch.setattr(
        lines, "answer_body", lambda endpoint, made, _at, *rest: body(endpoint, made, next(moments), *rest)
    )
    home = await world.home()
    for _ in range(3):
        await world.send(home)
    await world.through()

    rows = await world.owner.fetch("select provider_item_completed_at as at from rewrite.rewrite_outputs order by 1")
    assert [int(row["at"].timestamp()) % 1_800_000_000 % 77 for row in rows] == [0, 0, 0]
    assert len({row["at"] for row in rows}) == 3


@pytest.mark.contract("A-45", "A-41", "A-44", "C-60")
async def test_nothing_completes_without_having_been_evaluated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def spy(response: Any, request: Any) -> Any:
        seen.append(type(response).__name__)
        return evaluate_rewrite(response, request)

    monkeypatch.setattr(execution, "evaluate_rewrite", spy)
    home = await world.home()
    for _ in range(3):
        await world.send(home)
    await world.through()

    assert await world.ends() == [DONE] * 3
    assert seen == ["RewriteResponseV1"] * 3
    same = "select count(*) from rewrite.rewrite_outputs o join penstock.jobs j using (job_id) where o.xmin = j.xmin"
    assert await world.owner.fetchval(same) == 3, "output and completion are of one transaction"


@pytest.mark.contract("Q-02", "Q-03", "Q-04", "Q-85", "Q-86")
async def test_a_run_takes_no_more_than_its_cap_and_the_rest_waits_unharmed(make_world: MakeWorld) -> None:
    world: World = await make_world(profile="dev")
    home = await world.home()
    for _ in range(12):
        await world.send(home)

    done = await world.run_submitter()

    assert done.run is not None
    assert (done.run.claimed, done.run.left_waiting) == (5, 7)
    assert sum(len(asked) for asked in world.lines()) == 5
    rows = await world.owner.fetch("select status, attempt_count, last_error_code, lease_expires_at from penstock.jobs")
    assert sorted(row["status"] for row in rows) == ["batch_submitted"] * 5 + ["queued"] * 7
    assert {(row["attempt_count"], row["last_error_code"], row["lease_expires_at"]) for row in rows} == {
        (0, None, None)
    }


@pytest.mark.contract("Q-82")
async def test_with_nothing_pending_the_functions_say_so_and_do_nothing(world: World) -> None:
    assert (await world.run_submitter()).skipped
    assert (await world.run_collector()).skipped
    told = [json.loads(line) for line in world.log.getvalue().splitlines()]
    assert [line["event"] for line in told] == [
        "rewrite_batch_submitter skipped: no pending items",
        "rewrite_batch_collector skipped: no pending items",
    ]
    assert {line["level"] for line in told} == {"info"}


@pytest.mark.contract("A-97", "A-93", "A-55", "Q-75")
async def test_an_item_without_a_line_fails_alone_and_a_line_of_nobody_is_dropped(world: World) -> None:
    home = await world.home()
    sents = [await world.send(home) for _ in range(4)]
    await world.run_submitter()
    (batch,) = world.emulator.batches
    batch.plan.add("missing", items=[1])
    batch.plan.add("foreign")
    await world.pass_time(seconds=BATCH_SECONDS)
    await world.run_collector()

    order = [next(sent for sent in sents if sent.canary in line) for line in world.lines()[0]]
    assert await world.ends(*order) == [DONE, ("failed", "failed", "BATCH_ITEM_MISSING"), DONE, DONE]
    assert {alert["kind"] for alert in await world.alerts()} == {"batch_count_mismatch", "batch_items_unknown"}
    assert (await world.slots(), await world.output(order[1])) == (3, None)
