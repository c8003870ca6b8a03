"""The id that an item carries through a provider: which submission, which item, which claim (C-66)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from uuid import UUID

MAX_LENGTH: Final = 64
_SHAPE: Final = re.compile(r"([0-9a-f]{32})-(0|[1-9][0-9]{0,6})-([1-9][0-9]{0,18})", re.ASCII)


class ItemName(NamedTuple):
    """What a custom id says."""

    batch_id: UUID
    number: int
    claim_seq: int


def custom_id(batch_id: UUID, index: int, claim_seq: int) -> str:
    """`<submission hex>-<index>-<claim_seq>`: at most 60 characters, and a late result shows its age."""
    return f"{batch_id.hex}-{index}-{claim_seq}"


def parse_custom_id(text: object) -> ItemName | None:
    """The parts of a custom id; None for everything that is not one of ours."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        return None
    found = _SHAPE.fullmatch(text)
    if found is None:
        return None
    return ItemName(UUID(hex=found[1]), int(found[2]), int(found[3]))
