"""The objects of the rewrite contracts, each under its contract's own name.

Everything refuses members that it does not know: nothing can slip through a
model, a message least of all. Text is hidden from every `repr`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from penstock.contract.statuses import Status

JOB_TYPE: Final = "complaint_rewrite"
LONGEST_MESSAGE: Final = 8000  # characters
LONGEST_OUTPUT: Final = 4000
MOST_TERMS: Final = 100  # blocked terms of one recipient


class Surface(StrEnum):
    """Where the message was written (Q-21); carried for routing and reports."""

    WEEKLY_HARMONY = "weekly_harmony"
    DIRECT_MESSAGE = "direct_message"
    OTHER = "other"


class Strength(StrEnum):
    """How far a rewrite may go (Q-22)."""

    LIGHT_TOUCH = "light_touch"
    FULL_REFRAME = "full_reframe"


class Lane(StrEnum):
    """Whether the language changes (L-02, L-03)."""

    SAME_LANGUAGE = "same_language"
    CROSS_LANGUAGE = "cross_language"


class Confidence(StrEnum):
    """How sure the classifier is of a language."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class RequestStatus(StrEnum):
    """What the outside sees of a request; nothing about batches or claims (Q-05)."""

    RECEIVED = "received"
    QUEUED = "queued"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


UNAVAILABLE: Final = "rewrite_unavailable"  # the one failure that anybody outside is told

Word = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")]
Label = Annotated[str, StringConstraints(min_length=1, max_length=50, pattern=r"^[a-z][a-z0-9_]*$")]
Locale = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]


def _known(locale: str) -> str:
    if locale in ("und", "unknown"):
        raise ValueError("a locale is decided, never unknown")
    return locale


KnownLocale = Annotated[Locale, AfterValidator(_known)]


def _url(value: str | None) -> str | None:
    if value is not None and urlsplit(value).scheme not in ("http", "https"):
        raise ValueError("a base_url begins with https://")
    return value


BaseUrl = Annotated[Annotated[str, StringConstraints(max_length=500)] | None, AfterValidator(_url)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, populate_by_name=True)


class ClassifierResultV1(_Strict):
    """What the classifier advises (L-19); the orchestrator decides."""

    classifier_version: Word
    detected_language: KnownLocale | None
    language_confidence: Confidence
    topics: tuple[Label, ...] = ()
    intent: Label = "unclear"
    rewrite_strength: Strength = Strength.LIGHT_TOUCH
    safety_flags: tuple[Label, ...] = ()


class RoutingDecisionV1(_Strict):
    """Where a job goes; nine members and no room for a message (Q-32 to Q-41)."""

    provider: Literal["openai", "google", "other"]
    adapter_kind: Word
    base_url: BaseUrl = None
    model: Word
    prompt_version: Word
    policy_version: Word
    execution_mode: Literal["async", "batch"]
    cache_eligible: bool = True
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2


class PreferencesV1(_Strict):
    """What a recipient wishes, as it was when the request was made (L-17)."""

    tone: Label | None = None
    blocked_terms: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=100)], ...], Field(max_length=MOST_TERMS)
    ] = Field(default=(), repr=False)


class RewriteRequestV1(_Strict):
    """One message and everything that was decided about it; sealed at rest."""

    schema_: Literal["RewriteRequestV1"] = Field(default="RewriteRequestV1", alias="schema")
    message_text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_MESSAGE)] = Field(repr=False)
    surface: Surface
    rewrite_strength: Strength
    source_locale: KnownLocale
    target_locale: KnownLocale
    lane: Lane
    topics: tuple[Label, ...] = ()
    intent: Label = "unclear"
    preferences: PreferencesV1 = PreferencesV1()


class RewriteAnswer(_Strict):
    """What a model is asked for: the rendering and nothing else (L-75)."""

    rewritten_text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_OUTPUT)] = Field(repr=False)
    output_locale: Annotated[str, StringConstraints(min_length=2, max_length=35)]


class RewriteResponseV1(_Strict):
    """What is stored for one recipient; sealed at rest."""

    schema_: Literal["RewriteResponseV1"] = Field(default="RewriteResponseV1", alias="schema")
    rewritten_text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_OUTPUT)] = Field(repr=False)
    output_locale: KnownLocale
    rewrite_strength: Strength
    prompt_version: Word
    policy_version: Word


class RewriteJobV1(_Strict):
    """The whole payload of one job, put together in memory when it is executed (C-39)."""

    job_type: Literal["complaint_rewrite"] = "complaint_rewrite"
    job_id: UUID
    rewrite_request_id: UUID
    home_id: UUID
    sender_user_id: UUID
    recipient_user_id: UUID
    recipient_snapshot_id: UUID
    recipient_preference_snapshot_id: UUID
    source_locale: KnownLocale
    target_locale: KnownLocale
    lane: Lane
    provider_batch_id: str | None = None
    classifier_result: ClassifierResultV1
    routing_decision: RoutingDecisionV1
    rewrite_request: RewriteRequestV1 = Field(repr=False)
    execution_mode: Literal["async", "batch"]
    attempt: Annotated[int, Field(ge=1)] = 1
    max_attempts: Annotated[int, Field(ge=1)] = 2
    status: Status


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of *model*, under the members' own names."""
    return model.model_json_schema(by_alias=True)
