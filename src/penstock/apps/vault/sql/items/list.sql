-- The newest first, a page at a time, and of each only the beginning. The owner is named beside the row-level rule, and
-- the place of the page by one comparison, so that the index serves both. After an item that is not there comes nothing.
select id, kind, status, title, left(content, 200) as preview, failure_code, created_at, updated_at
  from vault.items
 where owner_id = cast($1 as uuid)
   and (cast($2 as text) is null or status = cast($2 as text))
   and (created_at, id) < (case when cast($3 as uuid) is null then cast('infinity' as timestamptz)
                                else (select seen.created_at from vault.items as seen where seen.id = cast($3 as uuid)) end,
                           coalesce(cast($3 as uuid), cast('ffffffff-ffff-ffff-ffff-ffffffffffff' as uuid)))
 order by created_at desc, id desc
 limit cast($4 as integer)
