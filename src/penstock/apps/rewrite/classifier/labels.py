"""The closed lists of labels; what is not in here is no label."""

from __future__ import annotations

from typing import Final

TOPICS: Final = (
    "noise",
    "cleaning",
    "dishes",
    "rent_money",
    "guests",
    "pets",
    "shared_food",
    "smoking",
    "temperature",
    "privacy",
    "schedule",
    "other",
)
INTENTS: Final = ("complaint", "request", "question", "thanks", "apology", "unclear")
SIGNALS: Final = ("insult", "swear", "blame")
RULED_FLAGS: Final = ("threat", "self_harm", "harassment", "hate", "medical", "legal")  # by terms of a rule file
SAFETY_FLAGS: Final = (*RULED_FLAGS, "personal_data")
