"""The channel webhook: signed JSON by the rules of Standard Webhooks, only to where it may go.

The id is made of the token and is the same on every try, so that a receiver
knows a message again; whether it has taken one, nobody can ask. A name is
resolved once, every address of it is checked, and the connection is made to a
checked address: a second resolution could say something else.
"""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import httpx
from standardwebhooks import Webhook as Signer

from penstock.channels.addresses import admitted, checked_webhook, is_allowed, literal_of, networks, target_of
from penstock.channels.failing import Broken, Said, failed_of, not_taken, refused, unknowable
from penstock.channels.port import Message, Receipt, Settles, WhenUncertain
from penstock.channels.web import Reply, client, exchange
from penstock.contract.errors import Failed, RecipientInvalid
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from penstock.channels.addresses import Address, Target

TRIES: Final = 3  # addresses of one name
_SUCCESS: Final = range(200, 300)
# What a receiver means. It is not ours: neither its logins nor its settings are a fault of this side.
_MEANINGS: Final = {
    404: FailureClass.NOT_FOUND,
    408: FailureClass.NETWORK_TIMEOUT,
    409: FailureClass.CONFLICT,
    410: FailureClass.NOT_FOUND,
    413: FailureClass.PAYLOAD_REJECTED,
    425: FailureClass.RATE_LIMITED,
    429: FailureClass.RATE_LIMITED,
}
_REFUSALS: Final = range(300, 500)


class Webhook:
    """Signed JSON to a receiver's own server."""

    kind = "webhook"
    settles: frozenset[Settles] = frozenset()
    window: timedelta | None = None
    when_uncertain = WhenUncertain.SEND_AGAIN  # the receiver knows it by its id

    def __init__(self, *, secret: str, allow: Sequence[str] = (), seconds: float = 20.0) -> None:
        self._signer = Signer(secret)
        self._allowed = networks(allow)
        self._seconds = seconds
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"Webhook({len(self._allowed)} private networks allowed)"

    def checked(self, address: str) -> str:
        """*address*, if a webhook may go there as far as its text tells."""
        return checked_webhook(address, self._allowed)

    def compose(self, message: Message) -> bytes:
        """The data as JSON; sorted and in ASCII, so that there is one way to write it."""
        return json.dumps(message.data, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")

    async def send(self, address: str, token: str, payload: bytes) -> Receipt:
        """Post it, signed for this moment."""
        identity = f"msg_{token}"
        reply = await self._within(address, self._headers(identity, payload), payload)
        if isinstance(reply, Broken):
            raise reply.error
        if reply.status in _SUCCESS:
            return Receipt(identity, datetime.now(UTC))
        failed = _failed(reply)
        raise not_taken(failed) if refused(reply.status) else failed

    async def look_up(self, token: str, notification_id: str | None) -> Receipt | None:  # noqa: ARG002 - the port's
        """Nobody can ask a receiver."""
        raise unknowable(self.kind)

    async def close(self) -> None:
        """Give the connections back."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _headers(self, identity: str, payload: bytes) -> dict[str, str]:
        now = datetime.now(UTC)
        return {
            "Content-Type": "application/json",
            "webhook-id": identity,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(identity, now, payload.decode()),
        }

    async def _within(self, url: str, headers: dict[str, str], payload: bytes) -> Reply | Broken:
        """Resolve, check, and post to the first address that answers; all of it within the time that is set."""
        began = asyncio.get_running_loop().time()
        found = await self._addresses(url)
        if isinstance(found, Broken):
            return found
        target, addresses = found
        broken: Reply | Broken = Broken(Failed(FailureClass.DNS_FAILURE), sent=False)
        for address in addresses[:TRIES]:
            left = self._seconds - (asyncio.get_running_loop().time() - began)
            if left <= 0:
                break
            broken = await self._post(url, target, address, headers, payload, left)
            if isinstance(broken, Reply) or broken.sent:
                break
        return broken

    async def _addresses(self, url: str) -> tuple[Target, list[Address]] | Broken:
        try:
            target = target_of(checked_webhook(url, self._allowed))
            addresses = await resolved(target, self._seconds)
        except RecipientInvalid:
            return _closed()
        except (OSError, TimeoutError) as error:
            return Broken(failed_of(error, FailureClass.DNS_FAILURE), sent=False)
        may_go = is_allowed if target.scheme == "http" else admitted
        return (target, addresses) if all(may_go(each, self._allowed) for each in addresses) else _closed()

    async def _post(
        self, url: str, target: Target, address: Address, headers: dict[str, str], payload: bytes, seconds: float
    ) -> Reply | Broken:
        """Connect to *address*; the name stays in the certificate's check and in the Host header."""
        if self._client is None:
            self._client = client(seconds=self._seconds, keep_alive=False, trust_env=False)
        named = httpx.URL(url)
        request = self._client.build_request(
            "POST",
            named.copy_with(host=str(address)),
            headers={**headers, "Host": named.netloc.decode("ascii")},
            content=payload,
            extensions={"sni_hostname": target.host},
        )
        return _theirs(await exchange(self._client, request, seconds=seconds, most=0))


async def resolved(target: Target, seconds: float) -> list[Address]:
    """Every address of the target, each once, as the system's resolver gives them."""
    literal = literal_of(target.host)
    if literal is not None:
        return [literal]
    async with asyncio.timeout(seconds):
        found = await asyncio.get_running_loop().getaddrinfo(
            target.host, target.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    texts = (str(each[4][0]).partition("%")[0] for each in found)  # fe80::1%eth0 is as private without its zone
    return list(dict.fromkeys(ip_address(text) for text in texts))


def _closed() -> Broken:
    why = "the host of this webhook leads to an address where webhooks may not go; see PENSTOCK_WEBHOOK_ALLOW"
    return Broken(Failed(FailureClass.RECIPIENT_REJECTED, why), sent=False)


def _theirs(answer: Reply | Broken) -> Reply | Broken:
    """A certificate that does not fit is the receiver's to mend, not a setting of ours."""
    if isinstance(answer, Broken) and answer.failed.error_class is FailureClass.CONFIG_INVALID:
        return Broken(Failed(FailureClass.RECIPIENT_REJECTED, "the receiver's certificate does not verify"), sent=False)
    return answer


def _failed(reply: Reply) -> Failed:
    error = Said(reply.status, None, reply.headers)
    if reply.status in _REFUSALS:
        return failed_of(error, _MEANINGS.get(reply.status, FailureClass.RECIPIENT_REJECTED))
    return failed_of(error)
