-- Replication slots that hold rows or log back for a reader that is not there.
select s.slot_name::text as name
  from pg_replication_slots as s
 where not s.active and (s.xmin is not null or s.catalog_xmin is not null or s.restart_lsn is not null)
