"""One version of the prompt, and what it makes of a request.

`instructions` say what to do and are the same whatever the message is;
`text` holds the message of one request and nothing else (A-56). Topics and
intent stay out: a classifier drew them from the message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from string import Template
from typing import TYPE_CHECKING

from penstock.contract.untrusted import Fence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.apps.rewrite.models import Lane, PreferencesV1, RewriteRequestV1, Strength


@dataclass(frozen=True, slots=True)
class Rendered:
    """The two halves of a question."""

    instructions: str = field(repr=False)  # a recipient's own words may stand in it
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Prompt:
    """The parts of one version, checked when it was loaded."""

    version: str
    opening: str
    data: str
    answer: str
    lanes: Mapping[Lane, str]
    strengths: Mapping[Strength, str]
    tone: str
    tones: Mapping[str, str]
    blocked: str
    languages: Mapping[str, str]
    fence: Fence

    def render(self, request: RewriteRequestV1) -> Rendered:
        """The question of one request for its one recipient, in the language that was decided for them."""
        return Rendered(self._instructions(request), self.fence.around(request.message_text))

    def _instructions(self, request: RewriteRequestV1) -> str:
        """What never varies stands first: providers keep a common beginning in their caches."""
        languages = {
            "source": self._language(request.source_locale),
            "target": self._language(request.target_locale),
            "code": request.target_locale,
        }
        varying = (self.lanes[request.lane], self.strengths[request.rewrite_strength], self.answer)
        wishes = self._wishes(request.preferences)
        return "\n\n".join(
            (self.opening, self.data, *wishes, *(Template(part).substitute(languages) for part in varying))
        )

    def _wishes(self, preferences: PreferencesV1) -> list[str]:
        """Tone and words of the recipient. A tone this version does not know is the default one."""
        tone = self.tones.get(preferences.tone or "default", self.tones["default"])
        wishes = [Template(self.tone).substitute(tone=tone)]
        if preferences.blocked_terms:
            terms = ", ".join(json.dumps(_one_line(term), ensure_ascii=False) for term in preferences.blocked_terms)
            wishes.append(Template(self.blocked).substitute(terms=terms))
        return wishes

    def _language(self, code: str) -> str:
        return f"{self.languages[code]} ({code})" if code in self.languages else f"the language with the code {code}"


def _one_line(term: str) -> str:
    """A recipient's word as one line of printable text: what it says is a word, not an order."""
    return " ".join("".join(character if character.isprintable() else " " for character in term).split())
