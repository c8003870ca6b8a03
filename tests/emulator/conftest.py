"""Clients of the real SDKs, their retries off."""

from collections.abc import Iterator

import pytest
from openai import OpenAI

from penstock.emulator import Emulator
from tests.support.emulator import emulator

__all__ = ["emulator"]


@pytest.fixture
def openai(emulator: Emulator) -> Iterator[OpenAI]:
    """OpenAI's own client."""
    with OpenAI(base_url=emulator.openai_base_url, api_key="any key", max_retries=0) as client:
        yield client
