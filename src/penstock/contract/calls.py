"""What goes to a model and what comes back, the same for every provider.

A `Route` is the part of a call that was decided before the job was enqueued
and never changes across retries (C-40). A `Request` holds one user's text and
nothing of anybody else's (A-56). An `Answer` is what a provider said; it is
untrusted until the job's type has accepted it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}")


class Execution(StrEnum):
    """How a job reaches its provider."""

    BATCH = "batch"  # parked in the provider's batch tier
    ASYNC = "async"  # one call per job, in the handler


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes, and under which versions. Jobs share a batch only if all of it is equal (A-52)."""

    provider: str
    model: str
    adapter: str
    base_url: str | None = None
    execution: Execution = Execution.BATCH
    prompt_version: str = "v1"
    policy_version: str = "v1"
    lane: str = "default"
    source_locale: str = ""
    target_locale: str = ""

    def __post_init__(self) -> None:
        for name in ("provider", "model", "adapter"):
            if not _WORD.fullmatch(getattr(self, name)):
                raise Failed(
                    FailureClass.CONFIG_INVALID,
                    f"the {name} of the route must be up to 200 letters, digits or ._:/@- without a space",
                )
        object.__setattr__(self, "execution", Execution(self.execution))  # a plain word will do

    @classmethod
    def to(cls, named: str, base_url: str | None = None, **more: Any) -> Route:
        """The route to what a setting names, `adapter:model`; an adapter's name begins with its provider's."""
        adapter, _, model = named.partition(":")
        return cls(adapter.partition("_")[0], model, adapter, base_url, **more)


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model. *schema*: the answer must be JSON that fits it."""

    route: Route
    instructions: str = field(repr=False)
    text: str = field(repr=False)
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    schema_name: str = "answer"
    max_output_tokens: int = 2048


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


NOTHING: Final = Usage()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said. *data* is the parsed JSON where a schema was asked for, else None."""

    text: str = field(repr=False)
    data: Any = field(default=None, repr=False)
    usage: Usage = NOTHING
    model: str = ""
    provider_id: str = ""  # the provider's id of this very answer
    at: datetime | None = None  # when the provider made it, where it says so
