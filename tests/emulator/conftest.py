"""Clients of the real SDKs, their retries off."""

from collections.abc import Iterator

import pytest
from anthropic import Anthropic
from google import genai
from google.genai.types import HttpOptions, HttpRetryOptions
from openai import OpenAI

from penstock.emulator import Emulator
from tests.support.emulator import emulator

__all__ = ["emulator"]


@pytest.fixture
def openai(emulator: Emulator) -> Iterator[OpenAI]:
    """OpenAI's own client."""
    with OpenAI(base_url=emulator.openai_base_url, api_key="any key", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic(emulator: Emulator) -> Iterator[Anthropic]:
    """Anthropic's own client."""
    with Anthropic(base_url=emulator.anthropic_base_url, api_key="any key", max_retries=0) as client:
        yield client


def gemini_client(url: str, key: str = "any key") -> genai.Client:
    """Google's own client."""
    options = HttpOptions(base_url=url, retry_options=HttpRetryOptions(attempts=1))
    return genai.Client(api_key=key, http_options=options)


@pytest.fixture
def gemini(emulator: Emulator) -> Iterator[genai.Client]:
    """Google's own client."""
    with gemini_client(emulator.gemini_base_url) as client:
        yield client
