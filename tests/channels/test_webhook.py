"""Webhooks: signed, with an id that stays, and only to where they may go."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from penstock.channels import webhook as module
from penstock.channels.port import Channel, WhenUncertain
from penstock.channels.registry import Channels
from penstock.channels.webhook import Webhook
from penstock.contract.classify import classify
from penstock.contract.errors import EffectUncertain, Failed, NotPerformed
from penstock.contract.failures import FailureClass
from penstock.emulator import Emulator
from tests.channels.conftest import channels_to, message_to, token_of

TOKEN = token_of("one")
SECRET = "whsec_" + "QUJD" * 11  # 33 bytes that spell ABC
Handler = Callable[[bytes, bytes], bytes]


@pytest.fixture
def webhook(channels: Channels) -> Channel:
    return channels.get("webhook")


async def failure(channel: Channel, url: str) -> tuple[Failed, bool]:
    """What a send fails of, and whether it is certain that nothing was taken."""
    with pytest.raises((Failed, NotPerformed)) as caught:
        await channel.send(url, TOKEN, b"{}")
    certain = isinstance(caught.value, NotPerformed)
    failed = caught.value.__cause__ if certain else caught.value
    assert isinstance(failed, Failed)
    return failed, certain


@pytest.mark.contract("C-42")
async def test_it_can_settle_nothing_and_sends_again_under_the_same_id(webhook: Channel) -> None:
    assert (webhook.settles, webhook.window) == (frozenset(), None)
    assert webhook.when_uncertain is WhenUncertain.SEND_AGAIN
    with pytest.raises(EffectUncertain):
        await webhook.look_up(TOKEN, f"msg_{TOKEN}")


@pytest.mark.contract("N-10")
async def test_a_second_try_has_the_same_id_and_the_same_bytes(webhook: Channel, emulator: Emulator) -> None:
    url = emulator.webhook_url("alice")
    payload = webhook.compose(message_to(url))
    emulator.faults.add("drop_after", provider="webhook", nth=1)

    with pytest.raises(Failed):
        await webhook.send(url, TOKEN, payload)
    receipt = await webhook.send(url, TOKEN, payload)

    first, second = emulator.deliveries
    assert first.identity == second.identity == receipt.notification_id == f"msg_{TOKEN}"
    assert first.body == second.body == channels_to(emulator).get("webhook").compose(message_to(url))
    assert json.loads(first.body) == {"review": {"a": [1, 2], "b": "ö"}}


async def test_the_signature_is_one_that_the_standard_library_of_receivers_accepts(serve: Serve) -> None:
    port, seen = await serve(b"HTTP/1.1 204 No Content\r\n\r\n")

    await Webhook(secret=SECRET, allow=["127.0.0.0/8"]).send(f"http://127.0.0.1:{port}/x", TOKEN, b'{"a":1}')

    head, _, body = seen[0].partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert Verifier(SECRET).verify(body, headers) == {"a": 1}
    assert headers["Host"] == f"127.0.0.1:{port}"


async def test_a_receiver_with_another_secret_refuses(emulator: Emulator) -> None:
    channels = channels_to(emulator, webhook_secret=SECRET)

    failed, certain = await failure(channels.get("webhook"), emulator.webhook_url("alice"))

    assert (failed.error_class, certain) == (FailureClass.RECIPIENT_REJECTED, True)
    assert len(emulator.deliveries) == 0
    await channels.close()


@pytest.mark.contract("E-09", "N-22", "E-03", "E-02")
@pytest.mark.parametrize(
    ("status", "error_class", "retryable", "certain"),
    [
        (410, FailureClass.NOT_FOUND, False, True),
        (404, FailureClass.NOT_FOUND, False, True),
        (400, FailureClass.RECIPIENT_REJECTED, False, True),
        (401, FailureClass.RECIPIENT_REJECTED, False, True),
        (403, FailureClass.RECIPIENT_REJECTED, False, True),
        (302, FailureClass.RECIPIENT_REJECTED, False, True),
        (413, FailureClass.PAYLOAD_REJECTED, False, True),
        (429, FailureClass.RATE_LIMITED, True, True),
        (408, FailureClass.NETWORK_TIMEOUT, True, False),
        (409, FailureClass.CONFLICT, True, False),
        (500, FailureClass.UPSTREAM_5XX, True, False),
        (502, FailureClass.NETWORK_RESET, True, False),
        (503, FailureClass.NETWORK_RESET, True, False),
        (504, FailureClass.NETWORK_TIMEOUT, True, False),
    ],
)
async def test_a_receiver_speaks_for_itself_and_never_for_the_channel(
    webhook: Channel, emulator: Emulator, status: int, error_class: FailureClass, retryable: bool, certain: bool
) -> None:
    headers = {"location": "http://169.254.169.254/", "retry-after": "9"}
    emulator.faults.add("status", provider="webhook", status=status, headers=headers)

    failed, was_certain = await failure(webhook, emulator.webhook_url("alice"))

    assert (failed.error_class, was_certain) == (error_class, certain)
    assert classify(failed, idempotent=True).retryable is retryable
    assert failed.retry_after == timedelta(seconds=9)
    assert len(emulator.calls) == 1


async def test_an_answer_without_end_is_not_read(serve: Serve) -> None:
    port, _ = await serve(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n" + b"x" * 100_000)

    receipt = await Webhook(secret=SECRET, allow=["127.0.0.0/8"]).send(f"http://127.0.0.1:{port}/x", TOKEN, b"{}")

    assert receipt.notification_id == f"msg_{TOKEN}"


@pytest.mark.contract("E-02")
async def test_a_receiver_that_says_nothing_leaves_a_doubt(serve: Serve) -> None:
    port, _ = await serve(b"")

    slow = Webhook(secret=SECRET, allow=["127.0.0.0/8"], seconds=0.1)
    failed, certain = await failure(slow, f"http://127.0.0.1:{port}/x")

    assert (failed.error_class, certain) == (FailureClass.NETWORK_TIMEOUT, False)


@pytest.mark.contract("C-52")
@pytest.mark.parametrize(
    "resolved",
    [["127.0.0.1"], ["93.184.215.14", "10.0.0.1"], ["::ffff:127.0.0.1"], ["fd00::1"], ["169.254.169.254"], ["::"]],
    ids=str,
)
async def test_a_name_with_one_private_address_is_not_connected_to_at_all(
    monkeypatch: pytest.MonkeyPatch, resolved: list[str], serve: Serve
) -> None:
    port, seen = await serve(b"HTTP/1.1 204 No Content\r\n\r\n")
    resolving(monkeypatch, {"hooks.example.org": resolved})

    failed, certain = await failure(Webhook(secret=SECRET), f"https://hooks.example.org:{port}/x")

    assert (failed.error_class, certain) == (FailureClass.RECIPIENT_REJECTED, True)
    assert "hooks.example.org" not in str(failed)
    assert seen == []


async def test_the_connection_goes_to_the_address_that_was_checked_and_asks_no_second_time(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    port, seen = await serve(b"HTTP/1.1 204 No Content\r\n\r\n")
    asked = resolving(monkeypatch, {"hooks.example.org": ["127.0.0.1"]})

    channel = Webhook(secret=SECRET, allow=["127.0.0.0/8"])
    await channel.send(f"http://hooks.example.org:{port}/x", TOKEN, b"{}")

    assert asked == ["hooks.example.org"]
    assert f"\r\nHost: hooks.example.org:{port}\r\n".encode() in seen[0]


async def test_plain_http_goes_only_to_allowed_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, {"hooks.example.org": ["93.184.215.14"]})

    failed, certain = await failure(Webhook(secret=SECRET, allow=["10.0.0.0/8"]), "http://hooks.example.org/x")

    assert (failed.error_class, certain) == (FailureClass.RECIPIENT_REJECTED, True)


@pytest.mark.contract("E-02")
async def test_a_name_that_nobody_knows_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, {})

    failed, certain = await failure(Webhook(secret=SECRET), "https://hooks.example.org/x")

    assert (failed.error_class, certain) == (FailureClass.DNS_FAILURE, True)


async def test_the_next_address_is_tried_where_nobody_listens_at_the_first(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    port, seen = await serve(b"HTTP/1.1 204 No Content\r\n\r\n")
    resolving(monkeypatch, {"hooks.example.org": ["127.0.0.2", "127.0.0.1"]})

    channel = Webhook(secret=SECRET, allow=["127.0.0.0/8"])
    await channel.send(f"http://hooks.example.org:{port}/x", TOKEN, b"{}")

    assert len(seen) == 1


@pytest.mark.contract("C-52")
async def test_no_log_and_no_failure_tells_where_a_webhook_went(
    webhook: Channel, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    url = emulator.webhook_url("secret-name")
    await webhook.send(url, TOKEN, b"{}")
    emulator.faults.add("drop", provider="webhook")

    failed, _ = await failure(webhook, url)

    assert "secret-name" not in f"{caplog.text} {failed!r} {failed.__context__!r} {failed.__cause__!r} {webhook!r}"


# A server of a few lines, for answers that no web framework gives.

Serve = Callable[..., Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[asyncio.Server] = []
    writers: list[asyncio.StreamWriter] = []

    async def start(answer: bytes, **options: Any) -> tuple[int, list[bytes]]:
        seen: list[bytes] = []

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            seen.append(head + await reader.readexactly(length))
            writer.write(answer)

        servers.append(await asyncio.start_server(handle, "127.0.0.1", 0, **options))
        return int(servers[0].sockets[0].getsockname()[1]), seen

    yield start
    for server in servers:
        server.close()
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def resolving(monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]]) -> list[str]:
    """Let the resolver know these names only; the names it was asked for."""
    asked: list[str] = []
    real = asyncio.BaseEventLoop.getaddrinfo

    async def getaddrinfo(loop: Any, host: Any, port: Any, **options: Any) -> Any:
        if isinstance(host, str) and not host.replace(".", "").isdigit():
            asked.append(host)
            if host not in names:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port)) for text in names[host]]
        return await real(loop, host, port, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    assert module.TRIES >= 2
    return asked
