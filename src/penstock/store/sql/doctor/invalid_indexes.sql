select i.indexrelid::regclass::text as name
  from pg_index as i
  join pg_class as c on c.oid = i.indrelid
 where c.relnamespace = 'penstock'::regnamespace and not (i.indisvalid and i.indisready)
 order by 1
