"""Untrusted text set apart as data in a question to a model, in a way that no text can undo.

Every line of it begins with a quote mark, and only the two fence lines do not:
a line that somebody else writes can be no fence, whatever it says. The fence also
names a digest and the number of lines of what it holds. Nothing is drawn at
random, so a retry asks the very same question.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

_DIGEST: Final = 32  # hexadecimal digits: nobody writes a text that holds its own
_CONTROLS: Final = {code: " " for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}


@dataclass(frozen=True, slots=True)
class Fence:
    """How one version of a prompt sets a text apart."""

    name: str  # the word in the fence lines
    quote: str  # before every line of the text
    tokens: tuple[str, ...]  # what models use to tell turns apart; a space breaks them up

    def around(self, text: str) -> str:
        """*text* in its fence."""
        body = "\n".join(self.quote + line for line in self.lines(text))
        mark = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
        count = body.count("\n") + 1
        return f"<<<{self.name} {mark} lines={count}\n{body}\n>>>{self.name} {mark}"

    def lines(self, text: str) -> list[str]:
        """The text line by line, without the tokens and control characters that could steer a model."""
        return [self._harmless(line) for line in text.splitlines()] or [""]

    def _harmless(self, line: str) -> str:
        for token in self.tokens:
            while token in line:  # again: breaking up one may leave the next, as in five brackets in a row
                line = line.replace(token, f"{token[0]} {token[1:]}")
        return line.translate(_CONTROLS)
