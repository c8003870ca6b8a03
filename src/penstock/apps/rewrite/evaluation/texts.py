"""What can be said of a text without knowing its language."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from penstock.apps.rewrite.evaluation.verdict import Detail
from penstock.apps.rewrite.models import LONGEST_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

# Controls but tab and line breaks, halves of surrogate pairs, overrides of the writing direction, and the mark of text
# that was decoded wrongly.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202d\u202e\ufffd\ud800-\udfff]")
_FENCE: Final = re.compile(r"(?:<<<|>>>)\s*[A-Z]{3,20}\s+[0-9a-f]{8,}")
# No text of its own accord ends so. A bracket that is the mouth of an emoticon is no bracket; a semicolon is the
# question mark of Greek; and what opens a quotation in one language closes it in the next.
_OPEN_END: Final = re.compile(r"(?:[,，、:：\[［{｛（「『„¿¡\\]|(?<![:;=])(?<![:;=]['-])\(|\w-|[–—])$")  # noqa: RUF001
_SENTENCE_END: Final = re.compile(r"[.!?…。！？।؟)\]）」』\"'”’»]$")  # noqa: RUF001


def text_details(text: str) -> Iterator[Detail]:
    """What is wrong with *text* in any language; nothing else is looked for in an empty one."""
    visible = "".join(character for character in text if unicodedata.category(character) != "Cf").strip()
    if _CONTROL.search(text):
        yield Detail.CONTROL_CHARACTER
    if not visible:
        yield Detail.EMPTY
        return
    if len(text) > LONGEST_OUTPUT:
        yield Detail.TOO_LONG
    if not any(character.isalpha() for character in visible):
        yield Detail.NO_WORDS
    if is_cut_off(visible):
        yield Detail.CUT_OFF
    if _FENCE.search(text):
        yield Detail.FENCE_ECHOED


def is_cut_off(text: str) -> bool:
    """Whether *text* stops in the middle (A-46): at an open end, or at the longest length without a sentence's end.

    A model that is held to a length stops exactly there. Words alone do not
    tell: a note may end without a full stop.
    """
    if _OPEN_END.search(text):
        return True
    return len(text) >= LONGEST_OUTPUT and not _SENTENCE_END.search(text)
