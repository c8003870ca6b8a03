"""Every setting and the rules between them; the description of a field says what it is for."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from penstock.contract.dsns import is_postgres_url
from penstock.contract.errors import SettingsInvalid
from penstock.contract.payloads import MAX_BYTES, MAX_DEPTH
from penstock.contract.places import is_host
from penstock.contract.prices import load_prices
from penstock.contract.profiles import PROFILES, Profile, profile
from penstock.contract.text_keys import parse_text_keys
from penstock.contract.texts import mask_dsn
from penstock.settings.forms import MODEL, NO_DSN, as_names
from penstock.settings.review import ReviewSettings
from penstock.settings.vault import VaultSettings

PREFIX: Final = "PENSTOCK_"
MAX_WORKER_NAME: Final = 100  # `claimed_by` holds no more (D-26)
FROZEN_LISTENER: Final = 15.0  # seconds within which a dead listener must be noticed (C-29)
HEARTBEATS_PER_LEASE: Final = 3
PROVIDERS: Final = ("openai", "gemini", "anthropic")
DSNS: Final = ("dsn", "listen_dsn", "web_orchestrator_dsn", "web_frontend_dsn", "web_operator_dsn")
SECRETS: Final = ("resend_api_key", "smtp_password", "webhook_secret")
KEYS: Final = ("text_keys", *SECRETS, *(f"{provider}_api_key" for provider in PROVIDERS))
_KEY: Final = re.compile(r"[A-Za-z0-9._~+=-]{1,500}", re.ASCII)  # it goes into a header
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}", re.ASCII)


class Notify(StrEnum):
    """When an enqueue pokes the workers (C-27)."""

    AFTER_COMMIT = "after_commit"
    IN_TRANSACTION = "in_transaction"
    OFF = "off"


def _as_notify(value: object) -> object:
    """The plain switch of a rollout is understood too: on is `after_commit`, off is `off` (D-71)."""
    word = str(value).strip().lower()
    if word in ("on", "true", "1", "yes"):
        return Notify.AFTER_COMMIT
    return Notify.OFF if word in ("off", "false", "0", "no") else word


def _as_delays(value: object) -> object:
    """`900,7200` and `[900, 7200]` are the same list."""
    if isinstance(value, str):
        return [part for part in value.strip().removeprefix("[").removesuffix("]").split(",") if part.strip()]
    return value


Cap = Annotated[int, Field(ge=1, le=100_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Days = Annotated[int, Field(ge=1, le=36_500)]
Milliseconds = Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)]


class Settings(ReviewSettings, VaultSettings):
    """One frozen set of settings; the description of a field says what it is for."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    # The database
    dsn: str | None = Field(None, repr=False, description="where the database is; unset: the embedded server")
    listen_dsn: str | None = Field(None, repr=False, description="a way past any pooler, for LISTEN; unset: the dsn")
    home: Path | None = Field(None, description="directory of the embedded server; unset: one of this user")
    pool_min: int = Field(1, ge=0, le=1000, description="connections an idle process keeps warm")
    pool_max: int = Field(10, ge=2, le=1000, description="per process; heartbeat and listener have their own beside it")
    prepared_statements: bool = Field(default=True, description="off behind a pooler that cannot keep them")
    connect_timeout_seconds: Seconds = Field(10.0, description="a server that does not answer by then is away")
    reconnect_initial_seconds: Seconds = Field(1.0, description="first delay before connecting again; it doubles")
    reconnect_max_seconds: Seconds = Field(30.0, description="longest delay before connecting again")

    # Dispatch
    notify: Annotated[Notify, BeforeValidator(_as_notify)] = Field(
        Notify.AFTER_COMMIT, description="when an enqueue pokes the workers; in the transaction it slows every commit"
    )
    poke_ms: Milliseconds = Field(5.0, description="at most one poke per channel and process in this time")
    poll_seconds: float = Field(
        30.0, ge=0.05, le=3600, allow_inf_nan=False, description="pause between fallback polls; 2 while NOTIFY is new"
    )
    listen_probe_seconds: Seconds = Field(8.0, description="a listener silent for this long is asked whether it lives")
    listen_timeout_seconds: Seconds = Field(5.0, description="how long it may take to answer")
    drain_plain: Cap = Field(1000, description="jobs per drain of a plain type")
    drain_contract: Cap = Field(10, description="jobs per drain of a contract type")
    drain_startup: Cap = Field(100, description="jobs in a contract type's first drain")

    # The worker
    worker_name: str | None = Field(None, description="as shown in claims and metrics; unset: host, process and slot")
    concurrency: int = Field(100, ge=1, le=10_000, description="handlers at once in each process")
    processes: int = Field(1, ge=1, le=256, description="worker processes; more than one for CPU-heavy handlers")
    lease_seconds: float = Field(
        300.0, ge=1, le=86_400, allow_inf_nan=False, description="lease of a type that sets none"
    )
    heartbeat_seconds: Seconds | None = Field(None, description="pause between renewals; unset: a third of the lease")
    grace_seconds: float = Field(
        30.0, ge=0, le=3600, allow_inf_nan=False, description="from SIGTERM until handlers are cancelled"
    )
    flush_ms: Milliseconds = Field(5.0, description="a finished job waits at most this long to be recorded")
    flush_jobs: Cap = Field(500, description="or until so many are finished")
    rss_limit_mb: Annotated[int, Field(ge=64, le=1_048_576)] | None = Field(
        None, description="memory above which a process drains and is replaced; unset: no limit"
    )
    insecure: bool = Field(default=False, description="run as superuser, BYPASSRLS or the schema's owner all the same")

    # Payloads
    payload_max_bytes: int = Field(
        MAX_BYTES, ge=1024, le=67_108_864, description="largest payload; small rows keep claims fast"
    )
    payload_max_depth: int = Field(
        MAX_DEPTH, ge=1, le=500, description="deepest nesting of a payload; parsers break near 1,000"
    )

    # Providers
    prices: str | None = Field(
        None,
        repr=False,
        description="what models cost: a JSON file, or the JSON itself; unset: only tokens are counted",
    )
    batch_delete_files: bool = Field(
        default=True, description="delete the files of a batch at its provider once they are read"
    )
    openai_api_key: SecretStr | None = Field(None, description="key of the adapters openai_responses and openai_chat")
    gemini_api_key: SecretStr | None = Field(None, description="key of the adapter gemini_generate")
    anthropic_api_key: SecretStr | None = Field(None, description="key of the adapter anthropic_messages")
    provider_hosts: Annotated[tuple[str, ...], BeforeValidator(as_names)] = Field(
        (), description="hosts, such as a gateway, that may get a key beside the provider's own and this machine"
    )

    # The rewrite application
    text_keys: SecretStr | None = Field(
        None, description="keys that seal stored text, id:key,id:key, the first in use; unset: no rewrite is taken"
    )
    rewrite_routes: str | None = Field(
        None,
        repr=False,
        description="where rewrites go: a JSON file of rules, or the JSON itself; unset: the table that comes with it",
    )
    rewrite_attempts: int = Field(
        2, ge=1, le=20, description="attempts of a rewrite, the first one included; a route can only lower it"
    )
    rewrite_classifier: Literal["rules", "llm"] = Field(
        "rules", description="who classifies messages: rules on this machine, or a model with the rules behind it"
    )
    rewrite_classifier_model: str = Field(
        "openai_responses:gpt-5-mini",
        pattern=MODEL,
        description="adapter and model of the llm classifier; its calls are single ones",
    )
    rewrite_languages: Annotated[tuple[str, ...], BeforeValidator(as_names)] = Field(
        (), description="languages that messages are told apart by, such as en,de,es; unset: all that come with it"
    )
    rewrite_reveal_delay_seconds: Annotated[float, Field(ge=0, le=31_622_400, allow_inf_nan=False)] | None = Field(
        None, description="from a request to its sender_reveal_at; unset: none is set unless the call names a delay"
    )

    # What is told
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="the least that is logged")
    log_format: Literal["auto", "json", "text"] = Field("auto", description="auto: text on a terminal, else JSON lines")
    metrics_host: str = Field("127.0.0.1", description="address of /metrics")
    metrics_port: Annotated[int, Field(ge=1, le=65_535)] | None = Field(
        None, description="port of /metrics; unset: not served"
    )

    # The HTTP API
    web_host: str = Field(
        "127.0.0.1", description="address of `penstock serve`; others than this machine's need a proxy"
    )
    web_port: int = Field(8080, ge=0, le=65_535, description="port of `penstock serve`; 0 takes a free one")
    web_max_bytes: int = Field(131_072, ge=1024, le=16_777_216, description="largest body of a request")
    web_max_streams: int = Field(200, ge=1, le=10_000, description="live streams at once in one process")
    web_orchestrator_dsn: str | None = Field(
        None, repr=False, description="login of penstock_orchestrator for `penstock serve`; unset: these routes are off"
    )
    web_frontend_dsn: str | None = Field(
        None, repr=False, description="login of penstock_frontend for `penstock serve`; unset: these routes are off"
    )
    web_operator_dsn: str | None = Field(
        None, repr=False, description="login of penstock_operator for `penstock serve`; unset: these routes are off"
    )

    # What is kept (C-67)
    keep_jobs_days: Days = Field(90, description="finished jobs of a contract type; open dead letters are never pruned")
    keep_audit_days: Days = Field(365, description="audit rows; at least as long as the jobs")
    keep_runs_days: Days = Field(90, description="records of runs and attempts")
    keep_alerts_days: Days = Field(90, description="alerts that were acknowledged")

    # The profile of scheduled types, and what overrides it
    profile: str = Field("base", description="base, dev, stage or prod")
    max_jobs_per_run: int | None = Field(None, description="jobs per run; unset: the profile's")
    max_runtime_seconds: int | None = Field(None, description="a run takes no new work after it; unset: the profile's")
    claim_timeout_seconds: int | None = Field(None, description="lease of scheduled types; unset: the profile's")
    retry_backoff_seconds: Annotated[tuple[float, ...] | None, BeforeValidator(_as_delays)] = Field(
        None, description="delays after failed attempts, such as 900,7200; unset: the profile's"
    )
    submitter_minutes: int | None = Field(None, description="cadence of the batch submitter; unset: the profile's")
    collector_minutes: int | None = Field(None, description="cadence of the batch collector; unset: the profile's")
    worker_minutes: int | None = Field(None, description="cadence of scheduled workers; unset: the profile's")
    collector_max_items: int | None = Field(None, description="items per collector run; unset: twice what is submitted")
    overflow_backoff_seconds: int | None = Field(None, description="wait of a job that did not fit; unset: 60")
    arrival_rate: int | None = Field(None, description="jobs per hour that the profile must drain; unset: not checked")

    @field_validator(*DSNS)
    @classmethod
    def _is_a_url(cls, value: str | None) -> str | None:
        if value is not None and not is_postgres_url(value):
            raise ValueError(NO_DSN)
        return value

    @field_validator("home")
    @classmethod
    def _is_one_place(cls, value: Path | None) -> Path | None:
        """Absolute, as sockets and processes started from another directory need it."""
        if value is None:
            return None
        try:
            os.fsencode(value).decode()
            return value.expanduser().absolute()
        except (UnicodeDecodeError, RuntimeError, OSError):
            raise ValueError("must be the path of a directory, in UTF-8, and ~ that of a user who exists") from None

    @field_validator("metrics_host", "web_host")
    @classmethod
    def _is_an_address_here(cls, value: str) -> str:
        if not is_host(value.partition("%")[0]):  # behind the % is a zone, as in fe80::1%eth0
            raise ValueError("must be a name or an address of this machine, such as 127.0.0.1, 0.0.0.0 or ::1")
        return value

    @field_validator("provider_hosts")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_HOST.fullmatch(host) for host in value):
            raise ValueError("must be names of hosts such as gateway.example.com, without scheme, port or path")
        return tuple(host.lower() for host in value)

    @field_validator("rewrite_languages")
    @classmethod
    def _are_languages(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_LANGUAGE.fullmatch(language) for language in value):
            raise ValueError("must be codes of languages such as en,de,es, in small letters")
        return value

    @field_validator("openai_api_key", "gemini_api_key", "anthropic_api_key", "resend_api_key")
    @classmethod
    def _is_a_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _KEY.fullmatch(value.get_secret_value()):
            raise ValueError("must be a key as the provider shows it: letters, digits and -._~+=, no blank, no quote")
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _level_in_small_letters(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("prices", "text_keys")
    @classmethod
    def _is_readable(cls, value: str | SecretStr | None) -> str | SecretStr | None:
        try:
            parse_text_keys(value.get_secret_value()) if isinstance(value, SecretStr) else load_prices(value)
        except SettingsInvalid as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("profile")
    @classmethod
    def _is_a_profile(cls, value: str) -> str:
        if value not in PROFILES:
            raise ValueError(f"must be one of {', '.join(PROFILES)}")
        return value

    @field_validator("worker_name")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not (value.isprintable() and 1 <= len(value) <= MAX_WORKER_NAME):
            raise ValueError(f"must have 1 to {MAX_WORKER_NAME} printable characters")
        return value

    @model_validator(mode="after")
    def _values_fit_each_other(self) -> Self:
        for holds, names, rule in self._rules():
            if not holds:
                raise SettingsInvalid(f"{' and '.join(PREFIX + name.upper() for name in names)}: {rule}")
        try:
            self.active_profile()
        except SettingsInvalid as error:
            raise SettingsInvalid(f"PENSTOCK_PROFILE={self.profile} with the overrides given: {error}") from None
        return self

    def _rules(self) -> tuple[tuple[bool, tuple[str, ...], str], ...]:
        heartbeat = self.heartbeat_seconds
        return (
            (
                heartbeat is None or heartbeat * HEARTBEATS_PER_LEASE <= self.lease_seconds,
                ("heartbeat_seconds", "lease_seconds"),
                f"the heartbeat is at most a third of the lease; lower it to {self.lease_seconds / 3:g} or unset it",
            ),
            (
                self.listen_probe_seconds + self.listen_timeout_seconds <= FROZEN_LISTENER,
                ("listen_probe_seconds", "listen_timeout_seconds"),
                f"together at most {FROZEN_LISTENER:g} s, within which a frozen listener must be noticed; lower one",
            ),
            (
                self.reconnect_initial_seconds <= self.reconnect_max_seconds,
                ("reconnect_initial_seconds", "reconnect_max_seconds"),
                "the first delay must not be above the longest; swap or lower it",
            ),
            (
                self.pool_min <= self.pool_max,
                ("pool_min", "pool_max"),
                f"the pool cannot keep {self.pool_min} connections with a maximum of {self.pool_max}",
            ),
            (
                self.processes == 1 or len(f"{self.worker_name or ''}-{self.processes}") <= MAX_WORKER_NAME,
                ("worker_name", "processes"),
                f"each process adds its number, as in name-{self.processes}, with {MAX_WORKER_NAME} letters for both",
            ),
            (
                self.keep_audit_days >= self.keep_jobs_days,
                ("keep_audit_days", "keep_jobs_days"),
                f"the audit must be kept at least as long as the jobs, {self.keep_jobs_days} days",
            ),
        )

    def active_profile(self) -> Profile:
        """The chosen profile with the overrides of this environment, checked as a whole."""
        names = (
            "max_jobs_per_run", "max_runtime_seconds", "claim_timeout_seconds", "retry_backoff_seconds",
            "submitter_minutes", "collector_minutes", "worker_minutes", "collector_max_items",
            "overflow_backoff_seconds",
        )  # fmt: skip
        overrides = {name: getattr(self, name) for name in names}
        return profile(self.profile, arrivals_per_hour=self.arrival_rate, **overrides)

    def provider_keys(self) -> dict[str, str]:
        """The keys that are set, by provider: for the adapters only, never to be shown."""
        keys = {provider: getattr(self, f"{provider}_api_key") for provider in PROVIDERS}
        return {provider: key.get_secret_value() for provider, key in keys.items() if key is not None}

    @property
    def listener_dsn(self) -> str | None:
        """Where LISTEN connects: a direct way to the server (C-29)."""
        return self.listen_dsn or self.dsn

    @property
    def shown_dsn(self) -> str:
        """The DSN for people to read, without its password."""
        return "the embedded server" if self.dsn is None else mask_dsn(self.dsn)
