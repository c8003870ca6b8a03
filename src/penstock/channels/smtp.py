"""The channel smtp: mail to a server of yours. Nobody can ask it later, so a lost reply stays a doubt.

Up to the command DATA nothing has happened, and a refusal is a refusal. After
the final dot the server may have the mail although no reply comes: then the
setting smtp_when_uncertain decides. A mail that goes out again is the same to
the byte, Message-ID and date included, and readers that know a mail by its
Message-ID show it once.
"""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from functools import lru_cache
from ssl import create_default_context
from typing import TYPE_CHECKING, Final, NamedTuple

import aiosmtplib

from penstock.channels.addresses import checked_mail
from penstock.channels.failing import failed_of, not_taken, unknowable
from penstock.channels.mail import list_headers, one_line
from penstock.channels.port import Message, Receipt, Settles, WhenUncertain
from penstock.contract.errors import Failed
from penstock.contract.failure_tables import BY_SMTP_REPLY
from penstock.contract.failures import FailureClass
from penstock.contract.places import is_mail_address, is_this_machine, mailbox

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterator
    from datetime import timedelta

SECONDS: Final = 30.0  # for one command
DATA_SECONDS: Final = 120.0  # for the mail itself: a server may scan it first, and giving up early makes a doubt
_BYE_SECONDS: Final = 1.0
_PERMANENT: Final = range(500, 600)
_LOGIN_FIRST: Final = frozenset({530, 534, 535})
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,200}", re.ASCII)


class Server(NamedTuple):
    """Where mails are handed over; *tls* is starttls, tls or off."""

    host: str
    port: int
    tls: str = "starttls"
    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Server({self.host}:{self.port}, {self.tls})"


class Smtp:
    """Mail over a server of yours."""

    kind = "smtp"
    settles: frozenset[Settles] = frozenset()
    window: timedelta | None = None

    def __init__(
        self,
        server: Server,
        *,
        sender: str,
        when_uncertain: str = WhenUncertain.SEND_AGAIN,
        tls_context: ssl.SSLContext | None = None,
    ) -> None:
        found = mailbox(sender)
        if found is None:
            raise Failed(FailureClass.CONFIG_INVALID, "PENSTOCK_MAIL_FROM is no address to send from")
        if server.tls == "off" and not is_this_machine(server.host):
            raise Failed(FailureClass.CONFIG_INVALID, "PENSTOCK_SMTP_TLS may be off only to a server on this machine")
        self._server = server
        self._sender = sender
        self._name, self._from = found
        self._tls_context = tls_context
        self.when_uncertain = WhenUncertain(when_uncertain)

    def __repr__(self) -> str:
        return f"Smtp({self._server!r})"

    def checked(self, address: str) -> str:
        """*address*, if it is one of mail."""
        return checked_mail(address)

    def compose(self, message: Message) -> bytes:
        """The whole mail. Message-ID, boundary and date come from the message, so two of it are equal."""
        mail = EmailMessage(policy.SMTP)
        user, _, domain = self._from.rpartition("@")
        mail["From"] = Address(self._name, user, domain)
        mail["To"] = Address(addr_spec=checked_mail(message.address))
        mail["Subject"] = _encodable(one_line(message.subject))
        mail["Date"] = message.written_at
        mail["Message-ID"] = f"<{message.token}@{domain}>"
        for name, value in list_headers(self._sender).items():
            mail[name] = value
        # Quoted-printable writes every = as =3D, so the boundary cannot stand in a text.
        mail.set_content(_encodable(message.text), cte="quoted-printable")
        mail.add_alternative(_encodable(message.html), subtype="html", cte="quoted-printable")
        mail.set_boundary(f"=_{message.token[:40]}")
        return mail.as_bytes()

    async def send(self, address: str, token: str, payload: bytes) -> Receipt:
        """Hand it over; the reply to the final dot is the receipt."""
        _guard(address)
        client = self._client()
        try:
            for step in self._before_data(client, address):
                await _take(step, before_data=True)
            await _take(
                _Step(lambda: client.data(payload, timeout=DATA_SECONDS), FailureClass.POLICY_REJECTED),
                before_data=False,
            )
            await _bye(client)
        finally:
            client.close()
        return Receipt(_message_id(payload) or token)

    async def look_up(self, token: str, notification_id: str | None) -> Receipt | None:  # noqa: ARG002 - the port's
        """Nobody can ask a mail server."""
        raise unknowable(self.kind)

    async def close(self) -> None:
        """Every mail has a connection of its own, closed behind it."""

    def _client(self) -> aiosmtplib.SMTP:
        server = self._server
        return aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            timeout=SECONDS,
            use_tls=server.tls == "tls",
            start_tls=server.tls == "starttls",
            tls_context=None if server.tls == "off" else self._tls_context or _trusted(),
            local_hostname=_own_name(),
        )

    def _before_data(self, client: aiosmtplib.SMTP, address: str) -> Iterator[_Step]:
        """All that comes before DATA: whatever goes wrong in it, no mail is out."""
        username, password = self._server.username, self._server.password or ""
        config = FailureClass.CONFIG_INVALID
        yield _Step(client.connect, config, "the mail server does not serve this machine; see PENSTOCK_SMTP_HOST")
        if username is not None:
            yield _Step(lambda: client.login(username, password), FailureClass.AUTH_DENIED)
        yield _Step(lambda: client.mail(self._from), config, "the mail server does not send for PENSTOCK_MAIL_FROM")
        yield _Step(lambda: client.rcpt(address), FailureClass.RECIPIENT_REJECTED)


def _guard(address: str) -> None:
    """What is no address must not get into a command."""
    if not is_mail_address(address):
        raise not_taken(Failed(FailureClass.RECIPIENT_REJECTED, "this is no mail address"))


class _Step(NamedTuple):
    """One step of the talk, and what it means when the server says no for good."""

    call: Callable[[], Awaitable[object]]
    permanent: FailureClass
    why: str = ""


async def _take(step: _Step, *, before_data: bool) -> None:
    """Its failure tells whether the mail may be out: a reply is an answer, silence after the final dot is none."""
    try:
        await step.call()
    except (aiosmtplib.SMTPException, OSError, TimeoutError, ValueError) as error:
        code = error.code if isinstance(error, aiosmtplib.SMTPResponseException) else None
        failed = failed_of(error, _class_of(error, code, step.permanent), step.why if code in _PERMANENT else "")
    else:
        return
    raise not_taken(failed) if before_data or code is not None else failed


def _class_of(error: Exception, code: int | None, permanent: FailureClass) -> FailureClass | None:
    """What a refusal for good means at this step; None: the tables know better."""
    if type(error) is aiosmtplib.SMTPException:  # the server lacks what is needed: encryption, a way to log in
        return FailureClass.CONFIG_INVALID
    if code not in _PERMANENT:
        return None
    if code in _LOGIN_FIRST:
        return FailureClass.AUTH_DENIED
    return BY_SMTP_REPLY.get(code or 0, permanent) if permanent is FailureClass.POLICY_REJECTED else permanent


async def _bye(client: aiosmtplib.SMTP) -> None:
    """The mail is out, whatever becomes of the farewell."""
    with suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
        await client.quit(timeout=_BYE_SECONDS)


def _message_id(payload: bytes) -> str | None:
    """The id that the mail itself names, written when it was composed."""
    found = BytesHeaderParser(policy=policy.SMTP).parsebytes(payload)["Message-ID"]
    return None if found is None else str(found)


def _encodable(text: str) -> str:
    """*text* without halves of characters, which no encoding has."""
    return text.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=1)
def _own_name() -> str:
    """How this machine calls itself; asking a name server for more could block for seconds."""
    name = socket.gethostname()
    return name if _NAME.fullmatch(name) else "[127.0.0.1]"


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """The certificates, read once."""
    return create_default_context()
