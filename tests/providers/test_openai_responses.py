"""The adapter `openai_responses`, single calls: what is sent, and what each answer means."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.contract.calls import Usage
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass as F
from tests.providers.clock import NOW
from tests.providers.kinds import responses
from tests.providers.support import KEY, SCHEMA, Script, adapters, answer, request

PATH = "POST /v1/responses"


@pytest.mark.contract("A-56", "Q-72")
async def test_one_request_goes_out_with_one_users_text_and_its_schema() -> None:
    script = Script({PATH: answer(responses())})
    asked = request("openai_responses")
    got = await adapters(script).get(asked.route).call(asked, seconds=5)

    assert len(script.requests) == 1
    assert script.last == {
        "model": "model-1",
        "input": "hello",
        "instructions": "translate",
        "max_output_tokens": 100,
        "store": False,
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
    }
    assert script.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert (got.data, got.usage, got.at) == ({"text": "bonjour"}, Usage(11, 7), NOW)
    assert (got.model, got.provider_id) == ("model-1-2026", "resp_1")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (responses(output=[{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]), F.POLICY_REJECTED),
        (responses(status="incomplete", incomplete_details={"reason": "content_filter"}), F.POLICY_REJECTED),
        (responses(status="incomplete", incomplete_details={"reason": "max_output_tokens"}), F.SCHEMA_INVALID),
        (responses(status="failed", error={"code": "server_error", "message": "x"}), F.UPSTREAM_5XX),
        (responses(status="failed", error={"code": "rate_limit_exceeded", "message": "x"}), F.RATE_LIMITED),
        (responses(status="failed", error={"code": "invalid_prompt", "message": "x"}), F.POLICY_REJECTED),
        (responses(status="failed", error={"code": "never_seen", "message": "x"}), F.UPSTREAM_5XX),
        (responses(status="in_progress"), F.UPSTREAM_5XX),
        (responses(output=[]), F.UPSTREAM_5XX),
        ({"hello": "world"}, F.UPSTREAM_5XX),
    ],
)
async def test_an_answer_behind_a_200_that_is_none_has_a_class_of_its_own(body: dict[str, Any], expected: F) -> None:
    script = Script({PATH: answer(body)})
    asked = request("openai_responses")
    with pytest.raises(Failed) as raised:
        await adapters(script).get(asked.route).call(asked, seconds=5)
    assert raised.value.error_class is expected
