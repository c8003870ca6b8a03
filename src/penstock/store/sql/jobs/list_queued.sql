-- Queued jobs in the order in which they will be claimed: the ready ones of each type, then those not yet due.
select waiting.*
  from penstock.types t
 cross join lateral (
       (select j.job_id, j.job_type, j.stage, j.status, j.priority, j.attempt_count, j.max_attempts, j.created_at, j.run_at,
               j.claimed_by, j.finished_at, j.last_error_code, j.ready
          from penstock.jobs j
         where j.job_type = t.job_type and j.status = 'queued' and j.ready
         order by j.priority, j.created_at, j.job_id
         limit $2)
       union all
       (select j.job_id, j.job_type, j.stage, j.status, j.priority, j.attempt_count, j.max_attempts, j.created_at, j.run_at,
               j.claimed_by, j.finished_at, j.last_error_code, j.ready
          from penstock.jobs j
         where j.job_type = t.job_type and j.status = 'queued' and not j.ready
         order by j.run_at
         limit $2)) as waiting
 where $1::text is null or t.job_type = $1
 order by waiting.ready desc, case when waiting.ready then waiting.priority end, case when waiting.ready then waiting.created_at end,
          waiting.run_at, waiting.job_id
 limit $2
