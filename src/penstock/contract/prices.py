"""What models cost: a table of the operator's, and the arithmetic in millionths of its currency.

The table is JSON: prices are per million tokens, `batch` is what a provider
charges in its batch tier as a part of the full price.

    {"currency": "USD",
     "models": {"gpt-5-mini": {"input": "0.25", "output": "2.00"},
                "anthropic/claude-haiku-4-5": {"input": 1, "output": 5, "batch": 0.5}}}

A model stands there by its name, or as `provider/name` where two providers
share one. What is not in the table costs nothing, and somebody is told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.contract.calls import Execution
from penstock.contract.errors import SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.contract.calls import Usage

HALF: Final = Decimal("0.5")  # what all three providers charge for a batch
MICROS: Final = 1_000_000
HIGHEST: Final = Decimal(1_000_000)  # per million tokens, or per day; more is taken for a slip of the pen
_LARGEST_FILE: Final = 1_000_000
_FIELDS: Final = frozenset({"input", "output", "batch"})


@dataclass(frozen=True, slots=True)
class Price:
    """Of one model: input and output per million tokens, and the share of it that a batch costs."""

    input: Decimal
    output: Decimal
    batch: Decimal = HALF

    def micros(self, usage: Usage, execution: Execution) -> int:
        """What *usage* cost, to the nearest millionth: tokens times the price per million, no more than that."""
        full = usage.input_tokens * self.input + usage.output_tokens * self.output
        cost = full * self.batch if execution is Execution.BATCH else full
        return int(cost.quantize(Decimal(1), ROUND_HALF_UP))


@dataclass(frozen=True, slots=True)
class Prices:
    """The table. An empty one is no mistake: nothing is priced, and only tokens are counted."""

    models: Mapping[str, Price] = field(default_factory=dict)
    currency: str = "USD"

    def of(self, provider: str, model: str) -> Price | None:
        """The price of *model*; the more exact name goes first."""
        return self.models.get(f"{provider}/{model}") or self.models.get(model)


def load_prices(source: str | None) -> Prices:
    """Read the table from *source*: JSON text, or the path of a file that holds it. None is an empty table.

    A refusal says what the setting must be, and repeats nothing of it: it may
    be a secret that was pasted into the wrong place.
    """
    if source is None:
        return Prices()
    text = source if source.lstrip().startswith("{") else _read(Path(source))
    try:
        table = json.loads(text)
    except ValueError:
        raise SettingsInvalid("must be a price table as JSON, and what it leads to is none") from None
    models = table.get("models") if isinstance(table, dict) else None
    if not isinstance(models, dict):
        raise SettingsInvalid('must have an object "models"; the how-to of provider batches shows one')
    currency = table.get("currency", "USD")
    if not isinstance(currency, str) or not (currency.isalpha() and len(currency) == 3):  # noqa: PLR2004 - ISO 4217
        raise SettingsInvalid('must have a "currency" of three letters, such as USD')
    return Prices({name: _price(name, entry) for name, entry in models.items()}, currency.upper())


def to_micros(amount: Decimal) -> int:
    """An amount of the currency in millionths."""
    return int((amount * MICROS).quantize(Decimal(1), ROUND_HALF_UP))


def amount(what: str, value: object) -> Decimal:
    """*value* as an exact amount: a number, or better its text; above nothing and within reason."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise SettingsInvalid(f"{what} must be a number such as '12.50'")
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        raise SettingsInvalid(f"{what} must be a number such as '12.50'") from None
    if not found.is_finite() or not 0 <= found <= HIGHEST:
        raise SettingsInvalid(f"{what} must lie between 0 and {HIGHEST}")
    return found


def _price(name: str, entry: object) -> Price:
    if not isinstance(entry, dict) or not {"input", "output"} <= entry.keys() <= _FIELDS:
        raise SettingsInvalid(
            f"must give model {name[:80]!r} input and output prices per million tokens; batch may stand beside them"
        )
    price = Price(**{part: amount(f"the {part} price of model {name[:80]!r}", entry[part]) for part in entry})
    if price.batch > 1:
        raise SettingsInvalid(f"must give model {name[:80]!r} a batch price as a part of the full one, from 0 to 1")
    return price


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise SettingsInvalid(
                f"is a file of more than {_LARGEST_FILE} bytes, which is no price table; name another"
            )
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        raise SettingsInvalid("must name a JSON file that can be read, or hold the JSON itself") from None
