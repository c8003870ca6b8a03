-- moves: ENRICHING -> READY_TO_CONFIRM, with everything that was found
update vault.items
   set status = 'READY_TO_CONFIRM', title = cast($2 as text), enrichment = cast(cast($3 as text) as jsonb)
 where id = cast($1 as uuid) and status = 'ENRICHING'
returning id
