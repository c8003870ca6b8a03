select t.tgname::text as name, c.relname::text as relation
  from pg_trigger as t
  join pg_class as c on c.oid = t.tgrelid
 where c.relnamespace = 'penstock'::regnamespace and not t.tgisinternal and t.tgenabled not in ('O', 'A')
 order by 1
