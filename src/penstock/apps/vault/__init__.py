"""vault: saved items, enriched a moment later."""
