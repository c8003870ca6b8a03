"""The emulator for tests: in this process, or in one of its own that outlives every client.

from tests.support.emulator import emulator   # the fixture; a batch takes 60 emulated seconds
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, Self

import pytest

from penstock.emulator import Emulator, RemoteEmulator
from tests.support.processes import start_penstock

BATCH_SECONDS = 60.0
PATIENCE = 10.0


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """A batch takes a minute of a clock that only `emulator.advance` moves."""
    with Emulator(finish_after=BATCH_SECONDS, frozen=True) as started:
        yield started


class EmulatorProcess(RemoteEmulator):
    """`penstock emulator` as a child of the test: from its first line, or forked."""

    def __init__(self, *options: str, cold: bool = True) -> None:
        self.process = start_penstock(["emulator", *options], os.environ, cold=cold, stdout=subprocess.PIPE)
        assert self.process.stdout
        super().__init__(self.process.stdout.readline().strip())

    def stop(self) -> int:
        """Ask it to leave; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        assert self.process.stdout
        self.process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()


def openai_lines(
    count: int, *, url: str = "/v1/responses", model: str = "gpt-test", prefix: str = "item", **body: Any
) -> bytes:
    """An input file of *count* requests."""
    asked = "messages" if "chat" in url else "input"
    return b"\n".join(
        json.dumps(
            {
                "custom_id": f"{prefix}-{number}",
                "method": "POST",
                "url": url,
                "body": {"model": model, asked: _said(asked, f"text {number}"), **body},
            }
        ).encode()
        for number in range(count)
    )


def _said(asked: str, text: str) -> Any:
    return text if asked == "input" else [{"role": "user", "content": text}]


def by_custom_id(content: bytes) -> dict[str, Mapping[str, Any]]:
    """The lines of a result file by their id."""
    return {line["custom_id"]: line for line in map(json.loads, content.splitlines())}
