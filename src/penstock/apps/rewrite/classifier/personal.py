"""Data about a person that a message gives away: addresses, numbers, accounts. The same in every language."""

from __future__ import annotations

import re
from typing import Final

from penstock.apps.rewrite.classifier.text import EMAIL

_PHONE: Final = re.compile(r"(?<!\w)(?:\+\d|0\d)[\d ()./-]{6,20}\d(?!\w)")
_IBAN: Final = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_CARD: Final = re.compile(r"(?<![\d-])\d(?:[ -]?\d){12,18}(?![\d-])")
_PHONE_DIGITS: Final = 9
_LUHN: Final = 10


def has_personal_data(text: str) -> bool:
    """Whether *text* has an e-mail address, a telephone number, an IBAN or a card number in it."""
    return bool(
        EMAIL.search(text)
        or _IBAN.search(text)
        or any(len(_digits(match)) >= _PHONE_DIGITS for match in _PHONE.findall(text))
        or any(_is_card(_digits(match)) for match in _CARD.findall(text))
    )


def _digits(text: str) -> list[int]:
    return [int(character) for character in text if character.isdecimal()]


def _is_card(digits: list[int]) -> bool:
    """The check digit of card numbers (Luhn): a date and a time in a row hardly ever have it."""
    doubled = [digit * 2 for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(divmod(digit, _LUHN)[0] + digit % _LUHN for digit in doubled)) % _LUHN == 0
