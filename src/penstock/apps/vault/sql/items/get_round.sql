select enrichment_round from vault.items where id = cast($1 as uuid)
