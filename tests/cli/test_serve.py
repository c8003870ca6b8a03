"""`penstock serve` as a process: what it starts with, what it refuses, and how it ends."""

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from penstock.apps.rewrite.keyring import new_key
from penstock.cli import cli
from penstock.telemetry import logs
from tests.support.desk import Desk
from tests.support.loopback import NOBODY
from tests.support.processes import PATIENCE, environment, start_penstock
from tests.web.conftest import HOME, RECIPIENT, REVIEW_ROW, SOURCES, a_request, move

SECRET = "sesame-9431"  # noqa: S105 - it must not be seen again
CANARY = "canary-0c77"


class Serving:
    """`penstock serve` as a child of the test, from its first line on."""

    def __init__(self, env: dict[str, str], *, cold: bool = False) -> None:
        command, pipe = ["serve", "--port", "0", "--log-format", "json"], subprocess.PIPE
        self.process = start_penstock(command, environment(None, env), stdout=pipe, stderr=pipe, cold=cold)
        self.lines: list[str] = []
        self._started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.process.stdout
        self.url = self.process.stdout.readline().strip()
        assert self._started.wait(PATIENCE), self.lines

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.lines.append(line)
            if '"web_started"' in line:
                self._started.set()

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in map(json.loads, self.lines) if line["event"] == name]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def clear_away(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def logins(role_dsn: Callable[[str], str]) -> dict[str, str]:
    """The variables of a whole service."""
    scopes = ("orchestrator", "frontend", "operator")
    named = {f"PENSTOCK_WEB_{scope.upper()}_DSN": role_dsn(f"penstock_{scope}") for scope in scopes}
    return {**named, "PENSTOCK_TEXT_KEYS": new_key("k1")}


@pytest.fixture
def serving() -> Iterator[Callable[..., Serving]]:
    """A function that starts a service; what it started ends with the test."""
    started: list[Serving] = []

    def start(env: dict[str, str], *, cold: bool = False) -> Serving:
        started.append(Serving(env, cold=cold))
        return started[-1]

    yield start
    for found in started:
        found.clear_away()


def key(role_dsn: Callable[[str], str], *options: str) -> str:
    done = CliRunner().invoke(
        cli, ["keys", "create", "--json", *options], env={"PENSTOCK_DSN": role_dsn("penstock_operator")}
    )
    assert done.exit_code == 0, done.output
    token: str = json.loads(done.stdout)["key"]
    return token


def test_a_service_answers_logs_without_text_and_ends_with_0(
    serving: Callable[..., Serving], logins: dict[str, str], role_dsn: Callable[[str], str]
) -> None:
    service = serving(logins, cold=True)
    token = key(role_dsn, "--scope", "orchestrator")
    with httpx.Client(base_url=service.url, verify=NOBODY, headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.get("/readyz").json()["status"] == "ready"
        home = f"/homes/00000000-0000-0000-0000-00000000000a?{CANARY}"
        assert client.put(home).status_code == 204
        assert client.post(f"/rewrites?{CANARY}", json={"text": CANARY}).status_code == 422
        assert client.get("/healthz").headers.get("server") is None
    assert service.stop() == 0
    written = "".join(service.lines)
    assert CANARY not in written
    assert token.partition(".")[2] not in written
    assert [event["route"] for event in service.events("web_request")] == [
        "/readyz", "/homes/{home_id}", "/rewrites", "/healthz",
    ]  # fmt: skip
    assert service.events("web_started")[0]["scope"] == ["frontend", "operator", "orchestrator"]
    assert service.events("web_stopping")[0]["reason"] == "SIGTERM"
    assert service.events("web_stopped")


def test_streams_are_ended_and_do_not_hold_the_end_up(
    serving: Callable[..., Serving], logins: dict[str, str], role_dsn: Callable[[str], str]
) -> None:
    service = serving({name: value for name, value in logins.items() if "FRONTEND" in name})
    home = "00000000-0000-0000-0000-00000000000a"
    token = key(role_dsn, "--scope", "frontend", "--home", home, "--user", home)
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.stream(
        "GET", f"{service.url}/rewrites/stream", headers=headers, timeout=PATIENCE, verify=NOBODY
    ) as answer:
        lines = answer.iter_lines()
        assert any(line == "event: live" for line in lines)
        service.process.send_signal(signal.SIGINT)
        assert any(line == 'data: {"code": "closing"}' for line in lines)
    assert service.ended() == 0
    assert service.events("web_stopping")[0]["streams"] == 1


def test_a_reader_of_a_killed_service_goes_on_at_another_one(
    serving: Callable[..., Serving], logins: dict[str, str], role_dsn: Callable[[str], str], desk: Desk
) -> None:
    frontend = {name: value for name, value in logins.items() if "FRONTEND" in name}
    token = key(role_dsn, "--scope", "frontend", "--home", str(HOME), "--user", str(RECIPIENT))
    headers = {"Authorization": f"Bearer {token}"}
    first, second = serving(frontend), serving(frontend)
    request = a_request(desk.owner)
    with httpx.stream(
        "GET", f"{first.url}/rewrites/stream", headers=headers, timeout=PATIENCE, verify=NOBODY
    ) as answer:
        lines = answer.iter_lines()
        last = next(line.partition(": ")[2] for line in lines if line.startswith("id: "))
        first.process.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)
    move(desk.owner, request, "queued")
    headers["Last-Event-ID"] = last
    with httpx.stream(
        "GET", f"{second.url}/rewrites/stream", headers=headers, timeout=PATIENCE, verify=NOBODY
    ) as answer:
        told = next(line for line in answer.iter_lines() if line.startswith("data: "))
    assert (str(request) in told, '"queued"' in told) == (True, True)


def refused(env: dict[str, str], *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["serve", "--port", "0", *options], env=env)
    logs.reset()
    assert "Traceback" not in done.stderr
    assert SECRET not in done.output
    return done.exit_code, done.stderr


def test_a_superuser_and_an_owner_are_refused_with_6(superuser_dsn: str, dsn: str) -> None:
    for login, words in ((superuser_dsn, "is a superuser"), (dsn, "is the owner of the schema")):
        code, said = refused({"PENSTOCK_WEB_FRONTEND_DSN": login})
        assert (code, words in said, "--insecure" in said) == (6, True, True), said


def test_no_login_at_all_is_told(role_dsn: Callable[[str], str]) -> None:
    code, said = refused({"PENSTOCK_DSN": role_dsn("penstock_worker")})
    assert code == 2
    assert "PENSTOCK_WEB_ORCHESTRATOR_DSN" in said


def test_a_server_that_is_away_is_refused_with_4_and_no_password() -> None:
    code, said = refused({"PENSTOCK_WEB_FRONTEND_DSN": f"postgresql://x:{SECRET}@127.0.0.1:1/nowhere"})
    assert (code, "127.0.0.1:1" in said) == (4, True), said


def test_a_schema_of_another_version_is_refused_with_5(desk: Desk, logins: dict[str, str]) -> None:
    desk.owner.execute("update penstock.schema_version set version_num = '0000'")
    code, said = refused({"PENSTOCK_WEB_FRONTEND_DSN": logins["PENSTOCK_WEB_FRONTEND_DSN"]})
    assert (code, "penstock migrate up" in said) == (5, True), said


def test_reviews_are_served_without_a_key_for_texts_and_rewrites_are_then_off(
    serving: Callable[..., Serving], logins: dict[str, str], role_dsn: Callable[[str], str], desk: Desk
) -> None:
    desk.owner.execute(REVIEW_ROW)
    only = {name: value for name, value in logins.items() if "TEXT_KEYS" not in name}
    service = serving({**only, "PENSTOCK_REVIEW_SOURCES": SOURCES})
    token = key(role_dsn, "--scope", "orchestrator")
    asked = {"changelist_id": "shop:main", "recipients": [{"channel": "smtp", "address": f"{CANARY}@example.org"}]}
    with httpx.Client(base_url=service.url, verify=NOBODY, headers={"Authorization": f"Bearer {token}"}) as client:
        made = client.post("/reviews", json=asked, headers={"Idempotency-Key": "k1"})
        assert made.status_code == 202
        assert client.get(made.headers["location"]).json()["status"] == "in_progress"
        assert client.put(f"/homes/{HOME}").json()["code"] == "switched_off"
    assert service.stop() == 0
    assert CANARY not in "".join(service.lines)


def test_messages_are_not_taken_without_a_key_for_texts(logins: dict[str, str]) -> None:
    code, said = refused({"PENSTOCK_WEB_ORCHESTRATOR_DSN": logins["PENSTOCK_WEB_ORCHESTRATOR_DSN"]})
    assert (code, "PENSTOCK_TEXT_KEYS" in said) == (2, True), said


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--port", "70000"), 2, "--port"),
        (("--host", "no.such.host.invalid"), 1, "cannot listen"),
        (("--log-level", "loud"), 2, "PENSTOCK_LOG_LEVEL"),
    ],
)
def test_absurd_options_are_refused(logins: dict[str, str], options: tuple[str, ...], code: int, words: str) -> None:
    done = CliRunner().invoke(cli, ["serve", *options], env=logins)
    assert (done.exit_code, words.lower() in done.stderr.lower()) == (code, True), done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [("WEB_MAX_BYTES", "10"), ("WEB_MAX_STREAMS", "0"), ("WEB_FRONTEND_DSN", f"mysql://x:{SECRET}@h/d")],
)
def test_absurd_settings_are_refused_by_name(name: str, value: str) -> None:
    done = CliRunner().invoke(cli, ["serve"], env={f"PENSTOCK_{name}": value})
    assert (done.exit_code, f"PENSTOCK_{name}" in done.stderr) == (2, True)
    assert SECRET not in done.output


def test_a_port_in_use_is_told(serving: Callable[..., Serving], logins: dict[str, str]) -> None:
    frontend = {name: value for name, value in logins.items() if "FRONTEND" in name}
    port = serving(frontend).url.rpartition(":")[2]
    code, said = refused(frontend, "--port", port)
    assert (code, port in said, "--port" in said) == (1, True, True)


def test_with_nothing_set_the_embedded_server_is_used(serving: Callable[..., Serving], made_home: Path) -> None:
    texts = {"PENSTOCK_TEXT_KEYS": new_key("k1"), "PENSTOCK_REWRITE_LANGUAGES": "en,es"}  # all of them load for seconds
    service = serving({"PENSTOCK_HOME": str(made_home), **texts})
    states = httpx.get(f"{service.url}/readyz", verify=NOBODY).json()["logins"]
    assert states == {"orchestrator": "ready", "frontend": "ready", "operator": "ready"}
    assert service.stop() == 0
