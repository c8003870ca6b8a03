"""Text made ready: without what is no language for the detection, folded for the rules."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{0,500}`", re.DOTALL)
EMAIL: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}")
_ADDRESS: Final = re.compile(
    r"(?:https?://|www\.)\S+"
    r"|(?<![\w.-])[\w-]{1,63}(?:\.[\w-]{1,63}){0,4}\.(?:com|org|net|io|app|de|fr|es|it|nl|pt|uk|nz|eu|jp|cn|in)\b(?:/\S*)?",
    re.IGNORECASE | re.ASCII,
)
_MENTION: Final = re.compile(r"(?<!\w)[@#]\w+")
_STRETCHED: Final = re.compile(r"(.)\1{2,}", re.DOTALL)  # nooooo
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2019\u2018\u02bc\u00b4\uff07`", "'"))
_JOINERS: Final = str.maketrans(dict.fromkeys("\u200b\u200c\u200d\ufeff\u00ad"))
_SAID_EVERYWHERE: Final = frozenset(
    {"wifi", "wi", "fi", "lol", "lmao", "omg", "haha", "hahaha", "ok", "okay", "bro", "pls", "plz", "app", "email"}
    | {"netflix", "whatsapp", "paypal", "youtube", "spotify", "airbnb"}
)
_SPOKEN: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc"})
_COUNTED: Final = _SPOKEN | {"Nd"}
# Marks that careful writers set and hasty ones leave out: accents, and the dot under Hindi letters.
_DROPPED: Final = {**dict.fromkeys(range(0x0300, 0x0370)), 0x093C: None, 0x0901: 0x0902}


def words(text: str) -> list[str]:
    """The words of *text* that tell its language: no code, addresses, mentions, digits or emoji.

    Words that chats of every language have in them are left out as long as
    others remain.
    """
    plain = text.translate(_JOINERS)
    for noise in (_CODE, EMAIL, _ADDRESS, _MENTION):
        plain = noise.sub(" ", plain)
    plain = _STRETCHED.sub(r"\1\1", unicodedata.normalize("NFKC", plain.translate(_APOSTROPHES)))
    found = [word.strip("'") for word in _kept(plain, _SPOKEN, "'").split()]
    found = [word for word in found if any(character.isalpha() for character in word)]
    return [word for word in found if word.lower() not in _SAID_EVERYWHERE] or found


def folded(text: str) -> str:
    """*text* in small letters without accents, its words between single spaces; rules are compared in this form."""
    plain = unicodedata.normalize("NFKD", text.translate(_JOINERS)).casefold().translate(_DROPPED)
    return " ".join(_kept(unicodedata.normalize("NFC", plain), _COUNTED, "").split())


def _kept(text: str, categories: frozenset[str], extra: str) -> str:
    """*text* with a space for every character that is of none of the *categories*."""
    return "".join(
        character if character in extra or unicodedata.category(character) in categories else " " for character in text
    )
