"""Google's own SDK talks to the emulator: uploads, batches, results, single calls."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from google.genai import errors
from google.genai.types import CreateBatchJobConfig, GenerateContentConfig, JobState, ListBatchJobsConfig

from penstock.emulator import Emulator
from tests.emulator.conftest import gemini_client
from tests.support.emulator import BATCH_SECONDS

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import BatchJob

NAME = "6f1c2a34111142228333444455556666"
MODEL = "gemini-test"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "language": {"type": "string"}, "notes": {"type": "array"}},
    "required": ["text", "language"],
}


def lines(count: int) -> bytes:
    return b"\n".join(
        json.dumps(
            {"key": f"item-{number}", "request": {"contents": [{"parts": [{"text": f"text {number}"}]}]}}
        ).encode()
        for number in range(count)
    )


def submit(client: Client, data: bytes, name: str = NAME) -> BatchJob:
    file = client.files.upload(
        file=io.BytesIO(data), config={"display_name": f"{name}.jsonl", "mime_type": "application/jsonl"}
    )
    assert file.state is not None
    assert (file.state.name, file.size_bytes) == ("ACTIVE", len(data))
    assert file.name is not None
    return client.batches.create(model=MODEL, src=file.name, config=CreateBatchJobConfig(display_name=name))


def results(client: Client, job: BatchJob) -> dict[str, Any]:
    assert job.dest is not None
    assert job.dest.file_name is not None
    content = client.files.download(file=job.dest.file_name)
    return {line["key"]: line for line in map(json.loads, content.splitlines())}


def poll(client: Client, job: BatchJob) -> BatchJob:
    assert job.name is not None
    return client.batches.get(name=job.name)


def test_an_upload_then_a_batch_then_its_results(gemini: Client, emulator: Emulator) -> None:
    job = submit(gemini, lines(12))
    assert job.state == JobState.JOB_STATE_PENDING
    emulator.advance(BATCH_SECONDS / 2)
    assert poll(gemini, job).state == JobState.JOB_STATE_RUNNING
    emulator.advance(BATCH_SECONDS)

    done = poll(gemini, job)

    assert (done.state, done.display_name, done.model) == (JobState.JOB_STATE_SUCCEEDED, NAME, f"models/{MODEL}")
    found = results(gemini, done)
    assert set(found) == {f"item-{number}" for number in range(12)}
    assert "text 7." in found["item-7"]["response"]["candidates"][0]["content"]["parts"][0]["text"]


def test_an_upload_in_several_chunks_arrives_whole(gemini: Client, emulator: Emulator) -> None:
    data = b"x" * (20 * 1024 * 1024)
    file = gemini.files.upload(file=io.BytesIO(data), config={"mime_type": "application/jsonl"})
    assert file.size_bytes == len(data)
    assert [call.path.count("/") for call in emulator.calls if call.method == "POST"] == [4, 5, 5, 5]


def test_a_batch_is_found_again_by_its_display_name(gemini: Client) -> None:
    jobs = [submit(gemini, lines(1), name=f"name-{number}") for number in range(5)]
    listed = list(gemini.batches.list(config=ListBatchJobsConfig(page_size=2)))
    assert [job.name for job in listed] == [job.name for job in jobs[::-1]]
    assert [job.display_name for job in listed] == [f"name-{number}" for number in (4, 3, 2, 1, 0)]


def test_a_cancelled_batch_has_no_results_and_can_be_deleted(gemini: Client, emulator: Emulator) -> None:
    job = submit(gemini, lines(3))
    assert job.name is not None
    gemini.batches.cancel(name=job.name)
    ended = poll(gemini, job)
    assert (ended.state, ended.dest) == (JobState.JOB_STATE_CANCELLED, None)
    gemini.batches.delete(name=job.name)
    with pytest.raises(errors.ClientError) as refused:
        poll(gemini, job)
    assert refused.value.code == 404


def test_a_batch_older_than_two_days_expires_without_results(gemini: Client, emulator: Emulator) -> None:
    emulator.faults.add("finish_after", seconds=10 * 86_400)
    job = submit(gemini, lines(3))
    emulator.advance(2 * 86_400)
    ended = poll(gemini, job)
    assert (ended.state, ended.dest) == (JobState.JOB_STATE_EXPIRED, None)


def test_a_bad_line_fails_the_batch_and_a_bad_request_fails_its_item(gemini: Client, emulator: Emulator) -> None:
    broken = submit(gemini, lines(1) + b"\n{no json")
    partly = submit(gemini, lines(1) + b'\n{"key": "bad", "request": {}}')
    emulator.advance(BATCH_SECONDS)
    assert poll(gemini, broken).state == JobState.JOB_STATE_FAILED
    assert results(gemini, poll(gemini, partly))["bad"]["error"]["code"] == 3


def test_structured_output_fits_the_schema(gemini: Client) -> None:
    config = GenerateContentConfig(
        system_instruction="Be kind.", response_mime_type="application/json", response_json_schema=SCHEMA
    )
    made = gemini.models.generate_content(model=MODEL, contents="Stop shouting at me!!", config=config)
    assert made.text is not None
    said = json.loads(made.text)
    assert (set(said), said["language"]) == ({"text", "language", "notes"}, "en")
    assert "Stop shouting at me." in said["text"]
    assert made.usage_metadata is not None
    assert made.usage_metadata.total_token_count
    assert made.usage_metadata.prompt_token_count == 2 + 6


def test_a_file_is_used_only_once_it_is_active() -> None:
    with Emulator(file_active_after=10, frozen=True) as emulator, gemini_client(emulator.gemini_base_url) as client:
        file = client.files.upload(file=io.BytesIO(lines(1)), config={"mime_type": "application/jsonl"})
        assert file.name is not None
        assert file.state is not None
        assert file.state.name == "PROCESSING"
        with pytest.raises(errors.ClientError) as refused:
            client.batches.create(model=MODEL, src=file.name)
        assert refused.value.status == "FAILED_PRECONDITION"
        emulator.advance(10)
        client.batches.create(model=MODEL, src=file.name)


def test_a_wrong_key_and_a_wrong_model_are_refused() -> None:
    with Emulator(keys={"right": "ours"}, models=[MODEL]) as emulator:
        with gemini_client(emulator.gemini_base_url, "wrong") as client, pytest.raises(errors.ClientError) as refused:
            client.models.generate_content(model=MODEL, contents="x")
        assert refused.value.code == 400
        assert refused.value.details["error"]["details"][0]["reason"] == "API_KEY_INVALID"
        with gemini_client(emulator.gemini_base_url, "right") as client, pytest.raises(errors.ClientError) as missing:
            client.models.generate_content(model="gemini-none", contents="x")
        assert (missing.value.code, missing.value.status) == (404, "NOT_FOUND")
