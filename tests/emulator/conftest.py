"""Clients of the real SDKs, their retries off."""

from collections.abc import Iterator

import anthropic as anthropic_sdk
import openai as openai_sdk
import pytest
from anthropic import Anthropic
from google import genai
from google.genai.types import HttpOptions, HttpRetryOptions
from openai import OpenAI

from penstock.emulator import Emulator
from tests.support.emulator import emulator
from tests.support.loopback import NOBODY

__all__ = ["emulator"]


def openai_client(url: str, key: str = "any key") -> OpenAI:
    """OpenAI's own client."""
    http = openai_sdk.DefaultHttpxClient(verify=NOBODY)
    return OpenAI(base_url=url, api_key=key, max_retries=0, http_client=http)


@pytest.fixture
def openai(emulator: Emulator) -> Iterator[OpenAI]:
    """OpenAI's own client."""
    with openai_client(emulator.openai_base_url) as client:
        yield client


def anthropic_client(url: str, key: str = "any key") -> Anthropic:
    """Anthropic's own client."""
    http = anthropic_sdk.DefaultHttpxClient(verify=NOBODY)
    return Anthropic(base_url=url, api_key=key, max_retries=0, http_client=http)


@pytest.fixture
def anthropic(emulator: Emulator) -> Iterator[Anthropic]:
    """Anthropic's own client."""
    with anthropic_client(emulator.anthropic_base_url) as client:
        yield client


def gemini_client(url: str, key: str = "any key") -> genai.Client:
    """Google's own client."""
    options = HttpOptions(
        base_url=url,
        retry_options=HttpRetryOptions(attempts=1),
        client_args={"verify": NOBODY},
        async_client_args={"verify": NOBODY, "ssl": NOBODY},  # the latter for websockets
    )
    return genai.Client(api_key=key, http_options=options)


@pytest.fixture
def gemini(emulator: Emulator) -> Iterator[genai.Client]:
    """Google's own client."""
    with gemini_client(emulator.gemini_base_url) as client:
        yield client
