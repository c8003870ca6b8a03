-- The workers that enrich items and are alive, with what their settings say about dispatch, and how the runs of the last
-- hour that took any job came about.
select w.worker_id, w.notify, w.poll_seconds, w.started_at, w.heartbeat_at,
       coalesce(r.by_poke, 0) as by_poke, coalesce(r.by_poll, 0) as by_poll
  from penstock.workers w
  left join lateral (
       select count(*) filter (where r.trigger = 'notify') as by_poke, count(*) filter (where r.trigger = 'poll') as by_poll
         from penstock.runs r
        where r.worker_id = w.worker_id and r.started_at > penstock.now() - interval '1 hour' and r.claimed_count > 0
       ) as r on true
 where $1 = any(w.types) and w.stopped_at is null and w.heartbeat_at > penstock.now() - $2::interval
 order by w.worker_id
