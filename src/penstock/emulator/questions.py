"""One request to a model, without the clothes of its provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked. *schema*: the JSON schema that the answer has to fit, if one was given.

    *echo*: members of the request that the service repeats in its answer.
    """

    provider: str
    model: str
    instructions: str
    text: str
    schema: Mapping[str, Any] | None = None
    max_output_tokens: int | None = None
    custom_id: str | None = None  # of a batch item
    echo: Mapping[str, Any] = field(default_factory=dict)

    @property
    def input_tokens(self) -> int:
        """Counted from the lengths, so that two runs agree."""
        return tokens(self.instructions) + tokens(self.text)


def tokens(text: str) -> int:
    """How many tokens *text* is billed as."""
    return (len(text) + CHARACTERS_PER_TOKEN - 1) // CHARACTERS_PER_TOKEN


def joined(content: object) -> str:
    """The text in *content*, whether it is a string, a part or a list of parts."""
    match content:
        case str():
            return content
        case {"text": str(text)}:
            return text
        case {"content": inner} | {"parts": inner}:
            return joined(inner)
        case list():
            return "\n".join(filter(None, map(joined, content)))
        case _:
            return ""


def compact(value: object) -> str:
    """*value* as JSON, the way the providers print it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
