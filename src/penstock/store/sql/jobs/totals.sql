-- The size of the table as the last ANALYZE saw it, what was finished in the last five minutes, and who works.
select (select greatest(c.reltuples::bigint, (select count(*) from (select from penstock.jobs limit 10000) as part))
          from pg_class c where c.oid = 'penstock.jobs'::regclass) as jobs_estimate,
       coalesce((select sum(r.succeeded_count) from penstock.runs r
                  where r.started_at > penstock.now() - interval '5 minutes'), 0)::bigint as succeeded_5_minutes,
       coalesce((select sum(r.failed_count) from penstock.runs r
                  where r.started_at > penstock.now() - interval '5 minutes'), 0)::bigint as failed_5_minutes,
       (select count(*) from penstock.workers w
         where w.stopped_at is null and w.heartbeat_at > penstock.now() - $1::interval) as workers,
       (select count(*) from (select from penstock.alerts a where a.acknowledged_at is null limit 1000) as part) as open_alerts
