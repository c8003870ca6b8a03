"""The way to a receiver and to a mail server is private, and ends at whom the certificate names."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiosmtpd.smtp import SMTP
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from penstock.channels import web
from penstock.channels.smtp import Server, Smtp
from penstock.channels.webhook import Webhook
from penstock.contract.errors import Failed, NotPerformed
from penstock.contract.failures import FailureClass
from tests.channels.conftest import message_to, token_of
from tests.channels.test_webhook import SECRET, Serve, resolving, serve

__all__ = ["serve"]

TO, TOKEN = "somebody@example.com", token_of("one")
HOST = "hooks.example.org"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For hooks.example.org and localhost, signed by itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST), x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def serving(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


def webhook_trusting(monkeypatch: pytest.MonkeyPatch, context: ssl.SSLContext) -> Webhook:
    monkeypatch.setattr(web, "trusted", lambda: context)
    return Webhook(secret=SECRET, allow=["127.0.0.0/8"])


async def test_the_certificate_is_that_of_the_name_although_the_connection_goes_to_an_address(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, serving: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    port, seen = await serve(b"HTTP/1.1 204 No Content\r\n\r\n", ssl=serving)
    resolving(monkeypatch, {HOST: ["127.0.0.1"]})
    channel = webhook_trusting(monkeypatch, trusting)

    await channel.send(f"https://{HOST}:{port}/x", TOKEN, b"{}")

    assert len(seen) == 1
    await channel.close()


@pytest.mark.parametrize("host", ["other.example.org", HOST])
async def test_a_certificate_of_somebody_else_gets_no_message_and_is_the_receivers_fault(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, serving: ssl.SSLContext, trusting: ssl.SSLContext, host: str
) -> None:
    port, seen = await serve(b"HTTP/1.1 204 No Content\r\n\r\n", ssl=serving)
    resolving(monkeypatch, {host: ["127.0.0.1"]})
    channel = webhook_trusting(monkeypatch, ssl.create_default_context() if host == HOST else trusting)

    with pytest.raises(NotPerformed) as caught:
        await channel.send(f"https://{host}:{port}/x", TOKEN, b"{}")

    assert isinstance(caught.value.__cause__, Failed)
    assert caught.value.__cause__.error_class is FailureClass.RECIPIENT_REJECTED
    assert seen == []
    await channel.close()


class Post:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []

    async def handle_DATA(self, _server: SMTP, _session: object, envelope: object) -> str:  # noqa: N802 - aiosmtpd
        self.mails.append(getattr(envelope, "original_content", b""))
        return "250 OK"


@pytest.fixture
async def starttls(serving: ssl.SSLContext) -> AsyncIterator[tuple[int, Post]]:
    """A mail server that takes nothing before STARTTLS."""
    loop, post = asyncio.get_running_loop(), Post()
    server = await loop.create_server(
        lambda: SMTP(post, tls_context=serving, require_starttls=True, loop=loop, hostname="localhost"), "127.0.0.1", 0
    )
    yield int(server.sockets[0].getsockname()[1]), post
    server.close()


async def test_a_mail_goes_out_after_starttls(starttls: tuple[int, Post], trusting: ssl.SSLContext) -> None:
    port, post = starttls
    smtp = Smtp(Server("localhost", port), sender="reviews@example.org", tls_context=trusting)

    await smtp.send(TO, TOKEN, smtp.compose(message_to(TO)))

    assert len(post.mails) == 1


async def test_a_mail_server_with_a_certificate_that_nobody_signed_gets_nothing(starttls: tuple[int, Post]) -> None:
    port, post = starttls
    smtp = Smtp(Server("localhost", port), sender="reviews@example.org")

    with pytest.raises(NotPerformed) as caught:
        await smtp.send(TO, TOKEN, smtp.compose(message_to(TO)))

    assert isinstance(caught.value.__cause__, Failed)
    assert caught.value.__cause__.error_class is FailureClass.CONFIG_INVALID
    assert post.mails == []
