"""Settings of the vault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field, field_validator, model_validator

from penstock.settings.forms import MODEL, as_url

if TYPE_CHECKING:
    from collections.abc import Mapping

# When an enqueue pokes, and how long the fallback poll pauses, by phase of a roll-out (D-71 to D-74). From the third
# phase on they stay as they are: what follows is watching.
DISPATCH: Final[Mapping[int, Mapping[str, Any]]] = {
    1: {"notify": "off", "poll_seconds": 2.0},
    2: {"notify": "after_commit", "poll_seconds": 2.0},
    3: {"notify": "after_commit", "poll_seconds": 30.0},
    4: {"notify": "after_commit", "poll_seconds": 30.0},
    5: {"notify": "after_commit", "poll_seconds": 30.0},
}


class VaultSettings(BaseModel):
    """Who enriches saved items, how large they may be, and how far the roll-out of NOTIFY is."""

    # The vault
    vault_model: str = Field(
        "openai_responses:gpt-5-mini",
        pattern=MODEL,
        description="adapter and model that enriches saved items",
    )
    vault_model_url: str | None = Field(
        None, repr=False, description="where that model is reached; unset: the provider's own"
    )
    vault_max_item_bytes: int = Field(
        100_000, ge=1_000, le=1_048_576, description="largest item that is saved; a larger one is refused"
    )
    vault_phase: int | None = Field(
        None,
        ge=min(DISPATCH),
        le=max(DISPATCH),
        description="phase of the roll-out of NOTIFY: sets notify and poll_seconds where these are not set themselves",
    )

    @field_validator("vault_model_url")
    @classmethod
    def _is_an_address_too(cls, value: str | None) -> str | None:
        return as_url(value)

    @model_validator(mode="before")
    @classmethod
    def _the_phase_fills_what_is_open(cls, given: Any) -> Any:
        """A phase that is none is left for the rule of its own field to refuse."""
        phase = str(given.get("vault_phase", "")).strip() if isinstance(given, dict) else ""
        return {**DISPATCH[int(phase)], **given} if phase in map(str, DISPATCH) else given
