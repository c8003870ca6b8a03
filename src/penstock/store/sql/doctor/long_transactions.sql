-- Sessions that have kept a snapshot or an id for longer than $1.
select a.pid, a.usename::text as who, coalesce(a.application_name, '') as application, now() - a.xact_start as age
  from pg_stat_activity as a
 where a.xact_start < now() - $1::interval
   and a.pid <> pg_backend_pid()
   and a.backend_type = 'client backend'
   and (a.backend_xmin is not null or a.backend_xid is not null)
 order by a.xact_start
