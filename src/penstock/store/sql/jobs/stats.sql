-- What waits, runs and needs a person, by type. A count stops at $1: nobody needs to know how much more than that.
-- Each is ordered as its index is: for a bare limit the planner may walk over the whole table.
select t.job_type, t.paused_at is not null as paused, t.breaker,
       (select count(*) from (select from penstock.jobs j
         where j.job_type = t.job_type and j.status = 'queued' and j.ready
         order by j.priority, j.created_at, j.job_id limit $1) as part) as ready,
       (select count(*) from (select from penstock.jobs j
         where j.job_type = t.job_type and j.status = 'queued' and not j.ready order by j.run_at limit $1) as part) as later,
       (select penstock.now() - min(first.created_at) from (select j.created_at from penstock.jobs j
         where j.job_type = t.job_type and j.status = 'queued' and j.ready
         order by j.priority, j.created_at, j.job_id limit 1) as first) as waiting,
       coalesce(busy.count, 0) as processing,
       (select count(*) from (select from penstock.jobs j
         where j.job_type = t.job_type and j.status = 'batch_submitted'
         order by j.updated_at limit $1) as part) as batch_submitted,
       (select count(*) from (select from penstock.dead_letters d
         where d.job_type = t.job_type and d.state <> 'resolved' limit $1) as part) as dead_letters
  from penstock.types t
  left join (select job_type, count(*) as count from penstock.jobs
              where status = 'processing' and lease_expires_at is not null group by job_type) as busy
    on busy.job_type = t.job_type
 order by t.job_type
