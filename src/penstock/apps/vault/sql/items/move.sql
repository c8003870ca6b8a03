-- moves of an item that the caller has locked; the table's own rule refuses any other. A failure is forgotten when it is
-- left, and its round with it when the enrichment begins again.
update vault.items
   set status = cast($2 as text), failure_code = null,
       enrichment_round = enrichment_round + cast(cast($2 as text) = 'ENRICHING' as integer)
 where id = cast($1 as uuid)
returning id, owner_id, kind, content, status, title, cast(enrichment as text) as enrichment, failure_code, enrichment_round,
       created_at, updated_at
