-- A new item begins at the beginning: its status and its round are the table's own. One of this id may be there: that of
-- the same key.
insert into vault.items (id, owner_id, kind, content)
values (cast($1 as uuid), cast($2 as uuid), cast($3 as text), cast($4 as text))
on conflict (id) do nothing
returning id, owner_id, kind, content, status, title, cast(enrichment as text) as enrichment, failure_code, enrichment_round,
       created_at, updated_at
