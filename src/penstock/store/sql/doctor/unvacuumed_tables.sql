-- Tables of ours on which somebody switched autovacuum off.
select c.relname::text as name
  from pg_class as c
 where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'r'
   and c.reloptions::text ~ 'autovacuum_enabled=(false|off|0|no)'
 order by 1
