-- The newest first, a page at a time, and of each only the beginning. The owner is named beside the row-level rule, so
-- that the index serves the order.
select id, kind, status, title, left(content, 200) as preview, failure_code, created_at, updated_at
  from vault.items
 where owner_id = cast($1 as uuid)
   and (cast($2 as text) is null or status = cast($2 as text))
   and (cast($3 as uuid) is null
        or (created_at, id) < (select last.created_at, last.id from vault.items as last where last.id = cast($3 as uuid)))
 order by created_at desc, id desc
 limit cast($4 as integer)
