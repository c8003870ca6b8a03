"""Settings of the review application and of the channels that tell people about its results."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, field_validator, model_validator

from penstock.contract.errors import SettingsInvalid
from penstock.contract.places import is_host, is_this_machine, mailbox
from penstock.settings.forms import MODEL, as_names, as_url

_SECRET: Final = re.compile(r"whsec_[A-Za-z0-9+/]{32,88}={0,2}", re.ASCII)


class ReviewSettings(BaseModel):
    """What reviews are made of, who is asked, and how people are told."""

    # The review application
    review_sources: str | None = Field(
        None,
        repr=False,
        description="where changelists come from: a JSON file of named sources, or the JSON itself; unset: no review",
    )
    review_execution: Literal["async", "batch"] = Field(
        "async", description="how the critic is asked: at once, or in a provider's batch"
    )
    review_model: str = Field(
        "openai_responses:gpt-5-mini",
        pattern=MODEL,
        description="adapter and model of the critic",
    )
    review_model_url: str | None = Field(None, description="where that model is reached; unset: the provider's own")
    review_max_diff_bytes: int = Field(
        1_000_000, ge=1_000, le=64_000_000, description="largest changelist that is fetched; a larger one is refused"
    )
    review_part_tokens: int = Field(
        12_000, ge=500, le=500_000, description="tokens of a changelist that one question to the critic may hold"
    )
    review_max_parts: int = Field(40, ge=1, le=1_000, description="questions that one review may cost")
    reconcile_seconds: Annotated[float, Field(ge=5, le=86_400, allow_inf_nan=False)] = Field(
        60.0, description="pause between two sweeps over deliveries that no provider has confirmed"
    )

    # Channels
    mail_from: str | None = Field(None, description="sender of mails, such as Reviews <reviews@example.org>")
    resend_api_key: SecretStr | None = Field(None, description="key of the channel resend; unset: it is off")
    resend_url: str = Field("https://api.resend.com", description="where the channel resend sends to")
    smtp_host: str | None = Field(None, description="server of the channel smtp; unset: it is off")
    smtp_port: int = Field(587, ge=1, le=65_535, description="its port")
    smtp_tls: Literal["starttls", "tls", "off"] = Field(
        "starttls", description="how the way to it is kept private; off only to this machine"
    )
    smtp_username: str | None = Field(None, description="login at it; unset: none")
    smtp_password: SecretStr | None = Field(None, description="password of that login")
    smtp_when_uncertain: Literal["send_again", "hold"] = Field(
        "send_again", description="a mail that may have been taken: send it again under its id, or leave it to a person"
    )
    webhook_secret: SecretStr | None = Field(None, description="secret that signs webhooks, whsec_…; unset: it is off")
    webhook_allow: Annotated[tuple[str, ...], BeforeValidator(as_names)] = Field(
        (), description="private networks that webhooks may reach, such as 10.1.0.0/16; unset: public ones only"
    )
    webhook_seconds: float = Field(
        20.0, ge=1, le=120, allow_inf_nan=False, description="how long a receiver of webhooks may take"
    )

    @field_validator("mail_from")
    @classmethod
    def _is_a_mailbox(cls, value: str | None) -> str | None:
        if value is not None and mailbox(value) is None:
            raise ValueError("must be an address such as reviews@example.org or Reviews <reviews@example.org>")
        return value

    @field_validator("resend_url", "review_model_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return as_url(value)

    @field_validator("resend_url")
    @classmethod
    def _keeps_the_key_private(cls, value: str) -> str:
        if not value.startswith("https:") and not is_this_machine(urlsplit(value).hostname or ""):
            raise ValueError("must be https, or on this machine: the key of resend goes there")
        return value

    @field_validator("smtp_host")
    @classmethod
    def _is_a_host(cls, value: str | None) -> str | None:
        if value is not None and not is_host(value):
            raise ValueError("must be the name or the address of a server, such as mail.example.org, without a port")
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _signs(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _SECRET.fullmatch(value.get_secret_value()):
            raise ValueError("must be whsec_ and 24 to 64 random bytes in base64")
        return value

    @field_validator("webhook_allow")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(str(ipaddress.ip_network(network)) for network in value)
        except ValueError:
            raise ValueError("must be networks such as 10.1.0.0/16,fd00::/8") from None

    @model_validator(mode="after")
    def _channels_make_sense(self) -> Self:
        if (self.smtp_username is None) != (self.smtp_password is None):
            raise SettingsInvalid("PENSTOCK_SMTP_USERNAME and PENSTOCK_SMTP_PASSWORD: a login has both; set the other")
        if self.smtp_tls == "off" and self.smtp_host is not None and not is_this_machine(self.smtp_host):
            raise SettingsInvalid(
                "PENSTOCK_SMTP_TLS and PENSTOCK_SMTP_HOST: off is for a server on this machine; use starttls or tls"
            )
        return self
