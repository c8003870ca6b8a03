"""OpenAI's own SDK talks to the emulator: files, batches, results, single calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai as sdk
import pytest

from penstock.emulator import Emulator
from tests.emulator.conftest import openai_client
from tests.support.emulator import BATCH_SECONDS, by_custom_id, openai_lines

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "tone": {"type": "string", "enum": ["warm", "plain"]},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["text", "tone", "score"],
    "additionalProperties": False,
}
SUBMISSION = "6f1c2a34-1111-4222-8333-444455556666"


def submit(client: OpenAI, data: bytes, *, endpoint: Any = "/v1/responses", name: str = "in.jsonl") -> Batch:
    file = client.files.create(purpose="batch", file=(name, data))
    return client.batches.create(
        input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"submission_id": SUBMISSION}
    )


def test_files_then_a_batch_then_its_results(openai: OpenAI, emulator: Emulator) -> None:
    batch = submit(openai, openai_lines(25))
    assert batch.status == "validating"
    emulator.advance(BATCH_SECONDS / 2)
    running = openai.batches.retrieve(batch.id)
    assert running.status == "in_progress"
    assert running.request_counts is not None
    assert 0 < running.request_counts.completed < running.request_counts.total == 25
    emulator.advance(BATCH_SECONDS * 0.45)
    assert openai.batches.retrieve(batch.id).status == "finalizing"
    emulator.advance(BATCH_SECONDS)

    done = openai.batches.retrieve(batch.id)

    assert (done.status, done.error_file_id, done.metadata) == ("completed", None, {"submission_id": SUBMISSION})
    assert done.request_counts is not None
    assert done.request_counts.completed == 25
    assert done.output_file_id is not None
    content = openai.files.content(done.output_file_id).read()
    assert openai.files.retrieve(done.output_file_id).bytes == len(content)
    results = by_custom_id(content)
    assert set(results) == {f"item-{number}" for number in range(25)}
    assert "text 7." in json.dumps(results["item-7"]["response"]["body"]["output"])


def test_a_batch_of_chat_completions_answers_in_their_shape(openai: OpenAI, emulator: Emulator) -> None:
    batch = submit(openai, openai_lines(2, url="/v1/chat/completions"), endpoint="/v1/chat/completions")
    emulator.advance(BATCH_SECONDS)
    done = openai.batches.retrieve(batch.id)
    assert done.output_file_id is not None
    results = by_custom_id(openai.files.content(done.output_file_id).read())
    assert results["item-1"]["response"]["body"]["choices"][0]["finish_reason"] == "stop"


def test_lists_are_newest_first_and_page(openai: OpenAI) -> None:
    batches = [submit(openai, openai_lines(1), name=f"{number}.jsonl").id for number in range(5)]
    first = openai.batches.list(limit=2)
    assert [batch.id for batch in first.data] == batches[:2:-1]
    assert first.has_more
    assert [batch.id for batch in openai.batches.list(limit=2)] == batches[::-1]
    assert [file.filename for file in openai.files.list(purpose="batch", limit=2)][:2] == ["4.jsonl", "3.jsonl"]
    assert openai.files.list(purpose="vision").data == []


def test_a_cancelled_batch_keeps_what_was_finished(openai: OpenAI, emulator: Emulator) -> None:
    batch = submit(openai, openai_lines(10))
    emulator.advance(BATCH_SECONDS / 2)
    assert openai.batches.cancel(batch.id).status == "cancelling"
    done = openai.batches.retrieve(batch.id)
    assert done.status == "cancelled"
    assert done.output_file_id is not None
    assert len(by_custom_id(openai.files.content(done.output_file_id).read())) == 5
    with pytest.raises(sdk.ConflictError):
        openai.batches.cancel(batch.id)


def test_a_batch_that_takes_longer_than_its_window_expires(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("finish_after", seconds=3 * 86_400)
    batch = submit(openai, openai_lines(10))
    emulator.advance(86_400)
    assert openai.batches.retrieve(batch.id).status == "expired"


def test_deleted_files_are_gone(openai: OpenAI) -> None:
    file = openai.files.create(purpose="batch", file=("x.jsonl", openai_lines(1)))
    assert openai.files.delete(file.id).deleted
    with pytest.raises(sdk.NotFoundError):
        openai.files.retrieve(file.id)


def test_structured_output_fits_the_schema_and_comes_from_the_input(openai: OpenAI) -> None:
    wanted: Any = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}
    answer = openai.responses.create(
        model="gpt-test", instructions="Be kind.", input="Stop shouting at me!!", text=wanted
    )
    said = json.loads(answer.output_text)
    assert set(said) == {"text", "tone", "score"}
    assert "Stop shouting at me." in said["text"]
    again = openai.responses.create(
        model="gpt-test", instructions="Be kind.", input="Stop shouting at me!!", text=wanted
    )
    assert again.output_text == answer.output_text
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 0


def test_a_chat_completion_honours_its_response_format(openai: OpenAI) -> None:
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    made = openai.chat.completions.create(
        model="gpt-test", messages=[{"role": "user", "content": "Where is my money"}], response_format=wanted
    )
    assert made.choices[0].message.content is not None
    assert "Where is my money." in json.loads(made.choices[0].message.content)["text"]


def test_a_schema_that_is_not_strict_is_refused(openai: OpenAI) -> None:
    loose = {**SCHEMA, "required": ["text"]}
    with pytest.raises(sdk.BadRequestError) as refused:
        openai.responses.create(
            model="gpt-test",
            input="x",
            text={"format": {"type": "json_schema", "name": "answer", "schema": loose, "strict": True}},
        )
    assert refused.value.code == "invalid_json_schema"


@pytest.mark.parametrize(
    ("lines", "code", "line"),
    [
        (b'{"custom_id": "a"', "invalid_json_line", 2),
        (openai_lines(1, prefix="other", model="another"), "model_mismatch", 2),
        (openai_lines(1), "duplicate_custom_id", 2),
        (openai_lines(1, prefix="b", url="/v1/chat/completions"), "url_mismatch", 2),
        (
            b'{"custom_id":"b","method":"POST","url":"/v1/responses","body":{"input":"x"}}',
            "missing_required_parameter",
            2,
        ),
    ],
)
def test_one_bad_line_fails_the_whole_batch_and_is_named(
    openai: OpenAI, emulator: Emulator, lines: bytes, code: str, line: int
) -> None:
    batch = submit(openai, openai_lines(1) + b"\n" + lines)
    assert batch.status == "validating"
    emulator.advance(BATCH_SECONDS)

    failed = openai.batches.retrieve(batch.id)

    assert (failed.status, failed.output_file_id, failed.error_file_id) == ("failed", None, None)
    assert failed.errors is not None
    assert failed.errors.data is not None
    assert [(error.code, error.line) for error in failed.errors.data] == [(code, line)]
    assert failed.request_counts is not None
    assert failed.request_counts.total == 0


def test_an_input_file_that_does_not_exist_fails_later(openai: OpenAI, emulator: Emulator) -> None:
    batch = openai.batches.create(input_file_id="file-none", endpoint="/v1/responses", completion_window="24h")
    emulator.advance(BATCH_SECONDS)
    assert openai.batches.retrieve(batch.id).status == "failed"


def test_an_item_with_a_bad_request_is_in_the_error_file(openai: OpenAI, emulator: Emulator) -> None:
    batch = submit(openai, openai_lines(1) + b"\n" + openai_lines(1, prefix="bad", max_output_tokens=1))
    emulator.advance(BATCH_SECONDS)
    done = openai.batches.retrieve(batch.id)
    assert done.error_file_id is not None
    assert by_custom_id(openai.files.content(done.error_file_id).read())["bad-0"]["response"]["status_code"] == 400
    assert done.request_counts is not None
    assert (done.request_counts.completed, done.request_counts.failed) == (1, 1)


def test_uploads_and_creates_are_checked(openai: OpenAI) -> None:
    with pytest.raises(sdk.BadRequestError, match=r"Must be \.jsonl"):
        openai.files.create(purpose="batch", file=("x.txt", b"{}"))
    with pytest.raises(sdk.BadRequestError) as refused:
        openai.batches.create(input_file_id="x", endpoint="/v1/embeddings", completion_window="24h")
    assert refused.value.param == "endpoint"
    with pytest.raises(sdk.NotFoundError):
        openai.batches.retrieve("batch_none")


def test_keys_open_projects_and_nothing_else() -> None:
    with Emulator(keys={"right": "ours", "theirs": "theirs"}) as emulator:
        mine, yours, nobody = (openai_client(emulator.openai_base_url, key) for key in ("right", "theirs", "wrong"))
        batch = submit(mine, openai_lines(1))
        assert list(yours.batches.list()) == []
        with pytest.raises(sdk.NotFoundError):
            yours.batches.retrieve(batch.id)
        with pytest.raises(sdk.AuthenticationError) as refused:
            nobody.batches.list()
        assert refused.value.code == "invalid_api_key"
        for client in (mine, yours, nobody):
            client.close()


def test_unknown_models_are_not_found(emulator: Emulator) -> None:
    with (
        Emulator(models=["gpt-test"]) as strict,
        openai_client(strict.openai_base_url) as client,
    ):
        with pytest.raises(sdk.NotFoundError) as refused:
            client.responses.create(model="gpt-none", input="x")
        assert refused.value.code == "model_not_found"
        with pytest.raises(sdk.NotFoundError):
            client.models.retrieve("gpt-none")
        assert client.models.retrieve("gpt-test").id == "gpt-test"


def test_the_state_counts_batches_per_submission(openai: OpenAI, emulator: Emulator) -> None:
    first = submit(openai, openai_lines(1))
    second = submit(openai, openai_lines(1))
    token = emulator.state()["openai"]["tokens"][SUBMISSION.replace("-", "")]
    assert (token["created"], token["live"], token["ids"]) == (2, 2, [first.id, second.id])
    openai.batches.cancel(second.id)
    emulator.advance(BATCH_SECONDS)
    token = emulator.state()["openai"]["tokens"][SUBMISSION.replace("-", "")]
    assert (token["live"], token["kept"]) == (0, 1)
