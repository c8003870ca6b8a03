"""The channel resend: mail over Resend's HTTP API, at most once per token.

The token is the Idempotency-Key: the same bytes under it give the first
mail's id again, for a day, of which 23 hours are used. A mail is looked up by
its id. The request is made here and not by Resend's own library, because that
one writes the body anew each time and takes a refused connection and a lost
reply for the same error.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.channels.addresses import checked_mail
from penstock.channels.failing import Broken, Said, failed_of, not_taken, refused, unknowable
from penstock.channels.mail import list_headers, one_line
from penstock.channels.port import Message, Receipt, Settles, WhenUncertain
from penstock.channels.web import Reply, client, exchange
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

SECONDS: Final = 30.0
WINDOW: Final = timedelta(hours=23)
_MOST: Final = 1_000_000  # of an answer; a lookup brings the whole mail
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_SUCCESS: Final = range(200, 300)
_NOT_FOUND: Final = 404
# Whose fault it is that Resend does not say by status: ours.
_CONFIG: Final = frozenset({"invalid_from_address", "invalid_access", "invalid_region", "method_not_allowed"})


class Resend:
    """Mail over Resend."""

    kind = "resend"
    settles = frozenset({Settles.LOOKUP_BY_ID, Settles.IDEMPOTENT_REPLAY})
    window: timedelta | None = WINDOW
    when_uncertain = WhenUncertain.HOLD

    def __init__(self, *, api_key: str, sender: str, url: str) -> None:
        self._key = api_key
        self._sender = sender
        self._url = url.rstrip("/")
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"Resend({self._url})"

    def checked(self, address: str) -> str:
        """*address*, if it is one of mail."""
        return checked_mail(address)

    def compose(self, message: Message) -> bytes:
        """The body of the request; sorted and in ASCII, so that there is one way to write it."""
        body = {
            "from": self._sender,
            "to": [checked_mail(message.address)],
            "subject": one_line(message.subject),
            "text": message.text,
            "html": message.html,
            "headers": {**list_headers(self._sender), "X-Entity-Ref-ID": message.token},
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":")).encode("ascii")

    async def send(self, address: str, token: str, payload: bytes) -> Receipt:  # noqa: ARG002 - it is in the payload
        """Send, or get the answer of the first time again."""
        headers = {"Idempotency-Key": token, "Content-Type": "application/json"}
        reply = await self._ask("POST", "/emails", headers, payload)
        if isinstance(reply, Broken):
            raise reply.error
        if reply.status in _SUCCESS:
            return Receipt(_identity(reply))
        failed = _failed(reply)
        raise not_taken(failed) if refused(reply.status) else failed

    async def look_up(self, token: str, notification_id: str | None) -> Receipt | None:  # noqa: ARG002 - by id only
        """The mail of this id; None only when Resend, asked with a key that may read, says there is no such mail."""
        if notification_id is None or not _ID.fullmatch(notification_id):
            raise unknowable(self.kind)
        reply = await self._ask("GET", f"/emails/{notification_id}", {})
        if isinstance(reply, Broken):
            raise reply.failed
        if reply.status in _SUCCESS:
            return _found(reply, notification_id)
        if reply.status == _NOT_FOUND:
            if _says_no_such_mail(reply):
                return None
            raise Failed(FailureClass.UPSTREAM_5XX, "Resend's 404 does not speak of a mail", upstream_status=404)
        raise _failed(reply)

    async def close(self) -> None:
        """Give the connections back."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> Reply | Broken:
        if self._client is None:
            self._client = client(seconds=SECONDS, keep_alive=True, trust_env=True)
        every = {"Authorization": f"Bearer {self._key}", **headers}
        request = self._client.build_request(method, f"{self._url}{path}", headers=every, content=content)
        return await exchange(self._client, request, seconds=SECONDS, most=_MOST)


def _object(reply: Reply) -> dict[str, Any]:
    """The answer's JSON object; empty for anything else."""
    try:
        found = json.loads(reply.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _identity(reply: Reply) -> str:
    identity = _object(reply).get("id")
    if isinstance(identity, str) and _ID.fullmatch(identity):
        return identity
    raise Failed(FailureClass.UPSTREAM_5XX, "Resend's answer has no id", upstream_status=reply.status)


def _found(reply: Reply, notification_id: str) -> Receipt:
    """A mail that is there; an answer about another one is no answer."""
    if _identity(reply) != notification_id:
        raise Failed(FailureClass.UPSTREAM_5XX, "Resend answered about another mail", upstream_status=reply.status)
    return Receipt(notification_id, _moment(_object(reply).get("created_at")))


def _moment(written: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(written))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _says_no_such_mail(reply: Reply) -> bool:
    """Whether a 404 is about the mail: a wrong path gives one of the same name, a proxy one of its own."""
    said = _object(reply)
    return said.get("name") == "not_found" and "email" in str(said.get("message", "")).lower()


def _failed(reply: Reply) -> Failed:
    said = _object(reply)
    name, message = str(said.get("name", "")), str(said.get("message", ""))
    error = Said(reply.status, name, reply.headers)
    if name == "restricted_api_key":
        return failed_of(error, why="the key of resend may only send; give it full access, so that mails can be found")
    if name == "validation_error" and "`to`" in message:
        return failed_of(error, FailureClass.RECIPIENT_REJECTED)
    if name in _CONFIG or (name == "validation_error" and _blames_the_sender(reply.status, message)):
        return failed_of(error, FailureClass.CONFIG_INVALID, "resend does not send for PENSTOCK_MAIL_FROM; verify it")
    if reply.status in _SUCCESS or reply.status >= 500:  # noqa: PLR2004 - an upstream's fault, whatever it says
        return failed_of(error, FailureClass.UPSTREAM_5XX if not name else None)
    return failed_of(error)


def _blames_the_sender(status: int, message: str) -> bool:
    """Whether the account may not send as this sender: its domain is not verified, or all it may do is test."""
    return status == 403 or "`from`" in message  # noqa: PLR2004 - of a request that is well-formed
