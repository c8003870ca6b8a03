"""The emulator in a process of its own, steered over HTTP: what chaos tests and demos use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

import openai as sdk
import pytest

from penstock.emulator import Emulator, RemoteEmulator
from tests.emulator.conftest import openai_client
from tests.emulator.test_openai import SUBMISSION, submit
from tests.support import forks
from tests.support.emulator import EmulatorProcess, openai_lines
from tests.support.processes import run_penstock


def client_of(emulator: RemoteEmulator | Emulator) -> sdk.OpenAI:
    return openai_client(emulator.openai_base_url)


def test_the_command_serves_a_script_and_leaves_when_asked(tmp_path: Path) -> None:
    script = {
        "faults": [{"kind": "drop_after", "method": "POST", "path": "/batches$", "nth": 1}],
        "answers": [{"contains": "flour", "answer": {"text": "Mehl"}}],
    }
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script))
    with EmulatorProcess("--faults", str(path), "--seed", "3", "--finish-after", "3600") as emulator:
        with client_of(emulator) as client:
            assert json.loads(client.responses.create(model="m", input="flour").output_text) == {"text": "Mehl"}
            with pytest.raises(sdk.APIConnectionError):
                submit(client, openai_lines(2))
        token = SUBMISSION.replace("-", "")
        assert emulator.state()["openai"]["tokens"][token]["live"] == 1
        with client_of(emulator) as later:
            (orphan,) = later.batches.list()
            emulator.advance(3600)
            assert later.batches.retrieve(orphan.id).status == "completed"
        assert emulator.state()["openai"]["stages"] == {"completed": 1}
        assert emulator.stop() == 0


def first_batch(*options: str) -> tuple[str, str]:
    """The seed that a new emulator prints and the id of the first batch it makes."""
    with EmulatorProcess(*options) as emulator, client_of(emulator) as client:
        assert emulator.process.stdout
        seed = emulator.process.stdout.readline().split()
        assert seed[0] == "seed"
        return seed[1], submit(client, openai_lines(1)).id


def test_every_start_gives_out_other_ids_and_prints_the_seed_that_repeats_them() -> None:
    seed, batch = first_batch()
    assert first_batch("--seed", seed) == (seed, batch)
    assert first_batch()[1] != batch


def test_faults_answers_and_memory_are_steered_from_outside(emulator: Emulator) -> None:
    remote = RemoteEmulator(emulator.url)
    remote.add_fault("server_error", path="/responses$", times=1)
    remote.add_answer("canned", regex="^|$")
    with client_of(remote) as client:
        with pytest.raises(sdk.InternalServerError):
            client.responses.create(model="m", input="x")
        assert client.responses.create(model="m", input="x").output_text == "canned"
    assert [call["status"] for call in remote.calls()] == [500, 200]
    assert remote.state()["openai"]["calls"] == {"POST /v1/responses": 2}
    remote.reset()
    assert remote.state()["openai"]["calls"] == {}
    with pytest.raises(HTTPError) as refused:
        remote.add_fault("no such thing")
    with refused.value:
        assert "there is no fault 'no such thing'" in refused.value.read().decode()


def test_a_client_killed_in_the_middle_leaves_the_state_alone(emulator: Emulator, tmp_path: Path) -> None:
    emulator.faults.add("delay", seconds=30, path="/batches$", method="POST")
    program = tmp_path / "client.py"
    program.write_text(f"""
import openai
client = openai.OpenAI(base_url={emulator.openai_base_url!r}, api_key="k", max_retries=0)
file = client.files.create(purpose="batch", file=("x.jsonl", b"{{}}"))
print("uploaded", flush=True)
client.batches.create(input_file_id=file.id, endpoint="/v1/responses", completion_window="24h")
""")
    with forks.start([str(program)], env=os.environ, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == "uploaded\n"
        child.kill()
    assert [file.name for file in emulator.files] == ["x.jsonl"]
    assert emulator.world.problems == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "has to be an object"),
        ('{"fault": []}', "not ['fault']"),
        ('{"faults": [{"kind": "dropp"}]}', "there is no fault 'dropp'"),
        ('{"answers": [{"contains": "x"}]}', "needs 'answer'"),
    ],
)
def test_a_wrong_script_is_told_and_not_served(tmp_path: Path, script: str, said: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(script)
    done = run_penstock(["emulator", "--faults", str(path)], None)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_port_in_use_is_told(emulator: Emulator) -> None:
    port = emulator.url.rpartition(":")[2]
    done = run_penstock(["emulator", "--port", port], None)
    assert done.returncode == 1
    assert "choose another --port" in done.stderr


def test_a_bug_of_the_emulator_is_raised_and_not_taken_for_the_providers() -> None:
    def broken(_question: object) -> str:
        raise LookupError("the test's own answer is broken")

    with (
        pytest.raises(LookupError),
        Emulator(answer=broken) as emulator,
        client_of(emulator) as client,
        pytest.raises(sdk.InternalServerError),
    ):
        client.responses.create(model="m", input="x")


def test_it_leaves_when_it_is_told_whoever_waits_for_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.emulator.server.DATE_SECONDS", 3600)  # it looks at nothing by itself
    emulator = Emulator()
    emulator.faults.add("delay", seconds=3600, path="/models")
    with emulator, socket.create_connection(("127.0.0.1", int(emulator.url.rpartition(":")[2]))) as waiting:
        waiting.sendall(b"GET /_emulator/state HTTP/1.1\r\nHost: x\r\n\r\n")
        assert waiting.recv(65536).startswith(b"HTTP/1.1 200")
        waiting.sendall(b"GET /openai/v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        emulator.stop()
        assert emulator._thread is not None
        assert not emulator._thread.is_alive()
        with suppress(ConnectionResetError):
            while waiting.recv(65536):
                pass
    assert emulator.world.problems == []


def test_the_body_of_a_reply_does_not_wait_for_its_head_to_be_acknowledged(emulator: Emulator) -> None:
    listening = emulator._server
    assert listening is not None
    assert listening._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)  # 40 ms of every request otherwise
