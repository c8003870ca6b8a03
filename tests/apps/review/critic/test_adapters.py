"""The critic's question through the real SDKs: every strict mode takes its schema, and a moderation block is final."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from penstock.apps.review.critic import SCHEMA, findings_of, request_of
from penstock.apps.review.models import Facts, Severity
from penstock.contract.calls import Request, Route
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass, escalates, is_retryable
from penstock.emulator import Emulator
from penstock.emulator.schemas import strict_problem
from penstock.providers.registry import Adapters
from tests.apps.review.critic.support import cut_part
from tests.providers.kinds import Kind, each_kind
from tests.providers.support import KEY

KEYWORDS = {"type", "properties", "required", "additionalProperties", "items", "enum"}  # all four document these


@pytest.fixture(scope="module")
def started() -> Iterator[Emulator]:
    """One server for all of them."""
    with Emulator() as server:
        yield server


@pytest.fixture
def emulator(started: Emulator) -> Emulator:
    """The same server, with nothing of the test before."""
    started.reset()
    return started


@pytest.fixture
async def adapters() -> AsyncIterator[Adapters]:
    made = Adapters({"openai": KEY, "gemini": KEY, "anthropic": KEY})
    yield made
    await made.close()


def asked(emulator: Emulator, kind: Kind) -> Request:
    provider = kind.name.partition("_")[0]
    route = Route(provider, "model-1", kind.name, base_url=getattr(emulator, f"{provider}_base_url"))
    return request_of(Facts(title="Give every cart a mean"), cut_part(), route)


def words(schema: object) -> set[str]:
    """Every keyword in *schema*; the names of properties are none."""
    if not isinstance(schema, dict):
        return set()
    inside = [*schema.get("properties", {}).values(), schema.get("items")]
    return set(schema).union(*map(words, inside))


def test_the_schema_uses_only_what_every_strict_mode_takes() -> None:
    assert strict_problem(SCHEMA) is None
    assert words(SCHEMA) <= KEYWORDS


@each_kind
async def test_every_adapter_brings_back_findings_at_lines_of_the_part(
    emulator: Emulator, adapters: Adapters, kind: Kind
) -> None:
    request = asked(emulator, kind)
    got = await adapters.get(request.route).call(request, seconds=10)
    judged = findings_of(got.data, cut_part())
    assert [(found.file, found.line, found.severity) for found in judged.findings] == [
        ("shop/cart.py", 9, Severity.MAJOR)
    ]
    assert judged.dropped == 0


@each_kind
@pytest.mark.contract("E-10")
async def test_a_moderation_block_is_final_and_escalates(emulator: Emulator, adapters: Adapters, kind: Kind) -> None:
    emulator.faults.add("content_filter")
    request = asked(emulator, kind)
    with pytest.raises(Failed) as refused:
        await adapters.get(request.route).call(request, seconds=10)
    assert refused.value.error_class is FailureClass.POLICY_REJECTED
    assert not is_retryable(refused.value.error_class, idempotent=True)
    assert escalates(refused.value.error_class, expected=False)
