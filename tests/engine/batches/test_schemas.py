"""A schema of the lane: what every answer must fit before its type sees it, alone or in a batch."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.calls import Answer, Request, Route
from tests.engine.batches.conftest import MakeLane, build
from tests.engine.batches.returning import all_answers, answer, make_home
from tests.support.fake_provider import FakeBatch

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


@pytest.mark.contract("A-94", "A-62", "L-55")
async def test_an_answer_of_another_shape_ends_its_own_job_and_is_never_shown_to_the_type(make_lane: MakeLane) -> None:
    seen: list[Any] = []

    def accept(_job: Any, _args: Any, reply: Answer) -> None:
        seen.append(reply.data)

    home = await make_home(make_lane, lane={"accept": accept, "schema": SCHEMA})
    ids = await home.sent(4)
    said = ['{"text": "Dear all"}', '{"text": 7}', "not JSON", '{"text": "Hello", "more": 1}']

    def lines(batch: FakeBatch) -> list[Any]:
        return [answer(line.custom_id, text) for line, text in zip(all_answers(batch), said, strict=True)]

    home.provider.lines = lines
    await home.collected()

    assert seen == [{"text": "Dear all"}]
    assert await home.codes(ids) == [
        ("completed", None),
        ("failed", "SCHEMA_INVALID"),
        ("failed", "SCHEMA_INVALID"),
        ("failed", "SCHEMA_INVALID"),
    ]


async def test_the_schema_of_a_lane_goes_out_with_every_request(make_lane: MakeLane) -> None:
    home = await make_home(make_lane, lane={"schema": SCHEMA})
    await home.fill(1, execution="async")

    await home.submitted()

    assert home.provider.calls[0].schema == SCHEMA


async def test_a_batch_takes_no_schema_that_the_lane_does_not_declare(make_lane: MakeLane) -> None:
    """Its answer comes back when the request is long gone, and would be believed unseen."""

    def own(job: Any, args: dict[str, Any]) -> Request:
        made = build(job, args)
        return Request(Route("acme", "small", "fake"), made.instructions, made.text, schema=SCHEMA)

    home = await make_home(make_lane, lane={"build": own}, attempts=1)
    ids = await home.fill(1)

    await home.submitted()

    assert await home.codes(ids) == [("failed", "CONFIG_INVALID")]
    assert home.provider.batches == []
