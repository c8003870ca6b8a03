"""The channels of a process: each made of the settings at its first use, or what to set instead.

An address is checked without the secrets of a channel, because whoever takes
an order need not be able to send: the process that does may be another one.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Protocol

from penstock.channels.addresses import checked_mail, checked_webhook, networks
from penstock.contract.errors import Failed, RecipientInvalid
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.channels.port import Channel


class Secret(Protocol):
    """A value that does not show itself."""

    def get_secret_value(self) -> str:
        """The value."""


class ChannelSettings(Protocol):
    """The part of the settings that channels need."""

    @property
    def mail_from(self) -> str | None:
        """Who sends mails."""

    @property
    def resend_api_key(self) -> Secret | None:
        """The key of resend."""

    @property
    def resend_url(self) -> str:
        """Where Resend is."""

    @property
    def smtp_host(self) -> str | None:
        """The mail server."""

    @property
    def smtp_port(self) -> int:
        """Its port."""

    @property
    def smtp_tls(self) -> str:
        """How the way to it is kept private."""

    @property
    def smtp_username(self) -> str | None:
        """The login at it."""

    @property
    def smtp_password(self) -> Secret | None:
        """The password of that login."""

    @property
    def smtp_when_uncertain(self) -> str:
        """What is done about a doubt."""

    @property
    def webhook_secret(self) -> Secret | None:
        """What signs webhooks."""

    @property
    def webhook_allow(self) -> tuple[str, ...]:
        """Private networks that webhooks may reach."""

    @property
    def webhook_seconds(self) -> float:
        """How long a receiver may take."""


# What a channel needs: the settings that switch it on, and the packages of the extra.
_NEEDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "resend": (("resend_api_key", "mail_from"), ("httpx",)),
    "smtp": (("smtp_host", "mail_from"), ("aiosmtplib",)),
    "webhook": (("webhook_secret",), ("httpx", "standardwebhooks")),
}
KINDS: Final = tuple(_NEEDS)


class Channels:
    """Every channel that the settings switch on."""

    def __init__(self, settings: ChannelSettings) -> None:
        self._settings = settings
        self._open: dict[str, Channel] = {}

    def __repr__(self) -> str:
        return f"Channels({', '.join(kind for kind in KINDS if self.problem(kind) is None) or 'none'})"

    def get(self, kind: str) -> Channel:
        """The channel of this kind; `Failed` with what to set where it is switched off."""
        known = self._open.get(kind)
        if known is None:
            problem = self.problem(kind)
            if problem is not None:
                raise Failed(FailureClass.CONFIG_INVALID, problem)
            known = self._open[kind] = _MAKERS[kind](self._settings)
        return known

    def problem(self, kind: str) -> str | None:
        """Why there is no such channel, and what to do next; None when there is one. Shows no secret."""
        if kind in self._open:
            return None
        if kind not in _NEEDS:
            return f"there is no channel of that name; there are {', '.join(KINDS)}"
        needed, packages = _NEEDS[kind]
        unset = [f"PENSTOCK_{name.upper()}" for name in needed if getattr(self._settings, name) is None]
        if unset:
            return f"the channel {kind} is off; set {' and '.join(unset)}"
        if not all(find_spec(package) for package in packages):
            return f"the channel {kind} needs its packages; install penstock[review]"
        return None

    def checked(self, kind: str, address: str) -> str:
        """*address*, if this channel can reach it at all; else `RecipientInvalid`, which does not repeat it."""
        known = self._open.get(kind)
        if known is not None:
            return known.checked(address)
        if kind == "webhook":
            return checked_webhook(address, networks(self._settings.webhook_allow))
        if kind not in _NEEDS:
            raise RecipientInvalid(f"a recipient names a channel that does not exist; choose one of {', '.join(KINDS)}")
        return checked_mail(address)

    def use(self, kind: str, channel: Channel) -> None:
        """Take *channel* for this kind, whatever the settings say."""
        self._open[kind] = channel

    async def close(self) -> None:
        """Close every channel; the next `get` opens a new one."""
        channels = list(self._open.values())
        self._open.clear()
        for channel in channels:
            await channel.close()


def _resend(settings: ChannelSettings) -> Channel:
    module = import_module("penstock.channels.resend")
    made: Channel = module.Resend(
        api_key=_shown(settings.resend_api_key), sender=settings.mail_from, url=settings.resend_url
    )
    return made


def _smtp(settings: ChannelSettings) -> Channel:
    module = import_module("penstock.channels.smtp")
    password = None if settings.smtp_password is None else _shown(settings.smtp_password)
    server = module.Server(settings.smtp_host, settings.smtp_port, settings.smtp_tls, settings.smtp_username, password)
    made: Channel = module.Smtp(server, sender=settings.mail_from, when_uncertain=settings.smtp_when_uncertain)
    return made


def _webhook(settings: ChannelSettings) -> Channel:
    module = import_module("penstock.channels.webhook")
    made: Channel = module.Webhook(
        secret=_shown(settings.webhook_secret), allow=settings.webhook_allow, seconds=settings.webhook_seconds
    )
    return made


def _shown(secret: Secret | None) -> str:
    return "" if secret is None else secret.get_secret_value()


_MAKERS: Final[Mapping[str, Callable[[ChannelSettings], Channel]]] = {
    "resend": _resend,
    "smtp": _smtp,
    "webhook": _webhook,
}
