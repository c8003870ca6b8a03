select id, owner_id, kind, content, status, title, cast(enrichment as text) as enrichment, failure_code, enrichment_round,
       created_at, updated_at
  from vault.items
 where id = cast($1 as uuid)
