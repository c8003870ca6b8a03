"""Batches as large as they come, and nothing of them on the disk."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, NoReturn

import psutil

from penstock.emulator import Emulator
from tests.emulator.test_openai import submit
from tests.support.emulator import BATCH_SECONDS, EmulatorProcess, openai_lines

if TYPE_CHECKING:
    import pytest
    from openai import OpenAI

MEGABYTE = 1024 * 1024


def test_ten_thousand_items_go_through(openai: OpenAI, emulator: Emulator) -> None:
    batch = submit(openai, openai_lines(10_000))
    emulator.advance(BATCH_SECONDS)
    done = openai.batches.retrieve(batch.id)
    assert done.output_file_id is not None
    found = [json.loads(line)["custom_id"] for line in openai.files.content(done.output_file_id).iter_lines()]
    assert len(set(found)) == 10_000


def test_a_result_file_of_200_megabytes_is_streamed_and_never_held() -> None:
    from tests.emulator.test_process import client_of

    with EmulatorProcess("--finish-after", "0") as emulator, client_of(emulator) as client:
        emulator.add_fault("huge", bytes=100_000)
        batch = submit(client, openai_lines(2_000))
        file_id = client.batches.retrieve(batch.id).output_file_id
        assert file_id is not None
        size = client.files.retrieve(file_id).bytes
        assert size > 190 * MEGABYTE
        with client.files.with_streaming_response.content(file_id) as reply:
            assert sum(len(chunk) for chunk in reply.iter_bytes(MEGABYTE)) == size
        assert psutil.Process(emulator.process.pid).memory_info().rss < 200 * MEGABYTE


def test_an_upload_stays_in_memory(openai: OpenAI, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a file was made")

    monkeypatch.setattr(tempfile, "TemporaryFile", never)
    monkeypatch.setattr(tempfile, "_TemporaryFileWrapper", never)
    data = openai_lines(100, instructions="x" * 100_000)
    assert len(data) > 9 * MEGABYTE
    assert openai.files.create(purpose="batch", file=("x.jsonl", data)).bytes == len(data)
