"""Settings of the vault."""

from __future__ import annotations

from pydantic import BaseModel, Field


class VaultSettings(BaseModel):
    """Who enriches saved items, and how large they may be."""

    # The vault
    vault_model: str = Field(
        "openai_responses:gpt-5-mini",
        pattern=r"^[a-z0-9_]{1,50}:[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}$",
        description="adapter and model that enriches saved items",
    )
    vault_model_url: str | None = Field(
        None, repr=False, description="where that model is reached; unset: the provider's own"
    )
    vault_max_item_bytes: int = Field(
        100_000, ge=1_000, le=1_048_576, description="largest item that is saved; a larger one is refused"
    )
