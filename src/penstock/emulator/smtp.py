"""A mail server that takes every mail, and hangs up or refuses when the script says so.

Faults strike a command: `method` is MAIL, RCPT, DATA or AUTH, `path` is the
address that it names. `drop` hangs up instead of answering, `drop_after` takes
the mail and hangs up, `status` answers with a reply of its own.
"""

from __future__ import annotations

import asyncio
import re
import socket
from email.parser import BytesHeaderParser
from typing import Any, Final
from weakref import WeakSet

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from penstock.emulator.deliveries import Delivery
from penstock.emulator.faults import Occasion, Rule
from penstock.emulator.kinds import Family
from penstock.emulator.world import Call, World

NAME: Final = "smtp"
_OK: Final = "250 OK"
_REPLIES: Final = {
    "rate_limited": 450, "server_error": 451, "unavailable": 421, "unauthorized": 535, "forbidden": 550, "quota": 452,
}  # fmt: skip
_MESSAGE_ID: Final = re.compile(r"<([^@<>]+)@[^<>]+>")


class Sink:
    """The hooks of one server."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._server: asyncio.Server | None = None
        self._guests: WeakSet[SMTP] = WeakSet()

    async def listen(self, port: socket.socket) -> None:
        """Take mails on *port*, in the loop that runs."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: self._protocol(loop), sock=port)

    def close(self) -> None:
        """Take no more, and hang up on everybody."""
        if self._server is not None:
            self._server.close()
        for guest in list(self._guests):
            _hang_up(guest)

    def _protocol(self, loop: asyncio.AbstractEventLoop) -> SMTP:
        guest = SMTP(self, hostname="emulator", loop=loop, auth_require_tls=False, authenticator=self._authenticate)
        self._guests.add(guest)
        return guest

    async def handle_MAIL(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Who sends."""
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return await self._answer(server, "MAIL", address)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Who gets it; a refused one is not on the envelope."""
        reply = await self._answer(server, "RCPT", address)
        if reply == _OK:
            envelope.rcpt_tos.append(address)
            envelope.rcpt_options.extend(options)
        return reply

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        """The mail itself: delivered, unless a fault stands before it."""
        content = envelope.original_content or b""
        struck = self._struck("DATA", envelope.rcpt_tos[0], _identity(content))
        if struck is None or struck.kind == "drop_after" or struck.get("act"):
            self._deliver(envelope, content)
        return await self._spoil(server, "DATA", struck)

    def _authenticate(self, server: SMTP, *_login: object) -> AuthResult:
        struck = self._struck("AUTH", "", "")
        self._note("AUTH", 235 if struck is None else _code(struck), struck)
        if struck is None:
            return AuthResult(success=True)
        if struck.kind == "drop":
            _hang_up(server)
        return AuthResult(success=False, handled=False)

    async def _answer(self, server: SMTP, command: str, address: str) -> str:
        return await self._spoil(server, command, self._struck(command, address, ""))

    def _struck(self, command: str, address: str, identity: str) -> Rule | None:
        occasion = Occasion(NAME, command, address, token=identity)
        found = self._world.faults.striking({Family.WIRE}, occasion)
        return found[0] if found else None

    async def _spoil(self, server: SMTP, command: str, rule: Rule | None) -> str:
        """The reply; a connection that is closed gets none."""
        if rule is not None and rule.kind == "delay":
            await asyncio.sleep(float(rule.get("seconds", 1)))
            rule = None
        if rule is None:
            self._note(command, 250, None)
            return _OK
        if rule.kind.startswith("drop"):
            self._note(command, None, rule)
            _hang_up(server)
            return _OK  # to nobody
        code = _code(rule)
        self._note(command, code, rule)
        return f"{code} {rule.get('message', 'An emulated reply.')}"

    def _deliver(self, envelope: Envelope, content: bytes) -> None:
        identity, now = _identity(content), self._world.clock.now()
        match = _MESSAGE_ID.fullmatch(identity)
        token = match[1] if match else identity
        for address in envelope.rcpt_tos:
            self._world.deliveries.add(Delivery(NAME, token, identity, address, content, now))

    def _note(self, command: str, status: int | None, rule: Rule | None) -> None:
        kinds = () if rule is None else (rule.kind,)
        self._world.calls.append(Call(NAME, command, "", self._world.clock.now(), status, kinds))
        self._world.counts[NAME, command] += 1


def _hang_up(server: SMTP) -> None:
    if isinstance(server.transport, asyncio.Transport):
        server.transport.abort()


def _code(rule: Rule) -> int:
    return int(rule.get("status", _REPLIES.get(rule.kind, 451)))


def _identity(content: bytes) -> str:
    headers: Any = BytesHeaderParser().parsebytes(content)
    return str(headers["Message-ID"] or "").strip()
