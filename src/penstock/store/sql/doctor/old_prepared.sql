select p.gid, now() - p.prepared as age
  from pg_prepared_xacts as p
 where p.prepared < now() - $1::interval
