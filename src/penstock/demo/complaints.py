"""Forty complaints of two homes, and what a model makes of each: the sample work of the rewrite act."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

if TYPE_CHECKING:
    from penstock.emulator import Question

DATA: Final = Path(__file__).parent / "data" / "complaints.json"
SPACE: Final = UUID("6f6d0f0e-3f6c-4c5f-8f0a-2f6a3b1c9d10")  # ids are made from names, so that two plays agree
URGENT: Final = 4  # every so many-th complaint of the second home asks at once
ASTRAY: Final = "This house needs clearer rules for everybody, and I would like to talk about them tonight."


@dataclass(frozen=True)
class Home:
    """One home and the locale of each of its members."""

    name: str
    members: dict[str, str]

    @property
    def home_id(self) -> UUID:
        """Its id."""
        return uuid5(SPACE, self.name)

    def user_id(self, member: str) -> UUID:
        """The id of a member."""
        return uuid5(self.home_id, member)


@dataclass(frozen=True)
class Complaint:
    """One message, and how a model puts it to its recipient."""

    number: int
    home: Home
    sender: str
    recipient: str
    text: str = field(repr=False)
    rewritten: str = field(repr=False)

    @property
    def target(self) -> str:
        """The recipient's language."""
        return self.home.members[self.recipient].partition("-")[0]

    @property
    def urgent(self) -> bool:
        """Whether it was written as a direct message, which the table of routes sends without a batch."""
        return self.home.name == "Mill Lane" and self.number % URGENT == 0


def read() -> tuple[list[Home], list[Complaint]]:
    """The sample work."""
    found = json.loads(DATA.read_text())
    homes = [Home(home["name"], home["members"]) for home in found["homes"]]
    return homes, [
        Complaint(number, homes[home], sender, recipient, text, rewritten)
        for number, (home, sender, recipient, text, rewritten) in enumerate(found["complaints"])
    ]


def model(complaints: list[Complaint], astray: Complaint) -> Any:
    """A model that knows these forty; to *astray* it answers in a language that nobody asked for."""

    def answer(question: Question) -> str:
        asked = next(complaint for complaint in complaints if complaint.text in question.text)
        text = ASTRAY if asked is astray else asked.rewritten
        return json.dumps({"rewritten_text": text, "output_locale": asked.target}, ensure_ascii=False)

    return answer
