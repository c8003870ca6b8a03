"""The names that inputs have: the only ones that a problem may repeat."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Header
from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

KNOWN: Final[set[str]] = {
    "body", "path", "query", "header", "home_id", "user_id", "Idempotency-Key", "idempotency-key", "Last-Event-ID",
    "last-event-id", "review_id", "channel", "address", "required", "item_id", "status", "limit", "before",
}  # fmt: skip


class Input(BaseModel):
    """A body that a caller sends: nothing beside what is declared, and no guessing of types."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Let problems name its members."""
        KNOWN.update(cls.model_fields)


def key_header(description: str, *, longest: int = 200) -> Any:
    """The header that makes asking twice the same as asking once."""
    return Header(
        alias="Idempotency-Key", min_length=1, max_length=longest, pattern=r"^[ -~]+$", description=description
    )


def readable(text: str) -> str:
    """*text*, unless it holds half a surrogate pair: JSON can say it, UTF-8 cannot."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise PydanticCustomError("string_unicode", "not valid UTF-8")
    return text
