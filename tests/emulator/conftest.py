"""Clients of the real SDKs, their retries off."""

import ssl
from collections.abc import Iterator

import anthropic as anthropic_sdk
import httpx2
import openai as openai_sdk
import pytest
from anthropic import Anthropic
from google import genai
from google.genai.types import HttpOptions, HttpRetryOptions
from openai import OpenAI

from penstock.emulator import Emulator
from tests.support.emulator import emulator

__all__ = ["emulator"]


# The certificates are read once: each client would take longer over them than over its whole test.
TRUSTED: ssl.SSLContext = httpx2.create_ssl_context()


@pytest.fixture
def openai(emulator: Emulator) -> Iterator[OpenAI]:
    """OpenAI's own client."""
    http = openai_sdk.DefaultHttpxClient(verify=TRUSTED)
    with OpenAI(base_url=emulator.openai_base_url, api_key="any key", max_retries=0, http_client=http) as client:
        yield client


@pytest.fixture
def anthropic(emulator: Emulator) -> Iterator[Anthropic]:
    """Anthropic's own client."""
    http = anthropic_sdk.DefaultHttpxClient(verify=TRUSTED)
    with Anthropic(base_url=emulator.anthropic_base_url, api_key="any key", max_retries=0, http_client=http) as client:
        yield client


def gemini_client(url: str, key: str = "any key") -> genai.Client:
    """Google's own client."""
    trusted = {"verify": TRUSTED}
    options = HttpOptions(
        base_url=url,
        retry_options=HttpRetryOptions(attempts=1),
        client_args=trusted,
        async_client_args=trusted,
    )
    return genai.Client(api_key=key, http_options=options)


@pytest.fixture
def gemini(emulator: Emulator) -> Iterator[genai.Client]:
    """Google's own client."""
    with gemini_client(emulator.gemini_base_url) as client:
        yield client
