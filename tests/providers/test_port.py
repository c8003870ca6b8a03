"""Every adapter fills the port; mypy proves the shapes, this proves that there are four."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.providers.anthropic_messages import AnthropicMessages
from penstock.providers.gemini_generate import GeminiGenerate
from penstock.providers.openai_chat import OpenAIChat
from penstock.providers.openai_responses import OpenAIResponses
from penstock.providers.registry import KINDS

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from google.genai import Client
    from openai import AsyncOpenAI

    from penstock.providers.port import BatchAdapter


def each(openai: AsyncOpenAI, gemini: Client, anthropic: AsyncAnthropic) -> list[BatchAdapter]:
    return [OpenAIResponses(openai), OpenAIChat(openai), GeminiGenerate(gemini), AnthropicMessages(anthropic)]


def test_every_kind_of_the_registry_is_an_adapter_of_that_name() -> None:
    kinds = (OpenAIResponses, OpenAIChat, GeminiGenerate, AnthropicMessages)
    assert {adapter.kind: (adapter.__name__, adapter.provider) for adapter in kinds} == {
        name: (kind.name, kind.provider) for name, kind in KINDS.items()
    }
