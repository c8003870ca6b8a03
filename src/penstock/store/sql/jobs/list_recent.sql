-- The newest jobs, of one type and one status or of any. Walks back from the newest id, over at most $5 jobs.
select *
  from (select j.job_id, j.job_type, j.stage, j.status, j.priority, j.attempt_count, j.max_attempts, j.created_at, j.run_at,
               j.claimed_by, j.finished_at, j.last_error_code
          from penstock.jobs j
         where $3::uuid is null or j.job_id < $3
         order by j.job_id desc
         limit $5) as recent
 where ($1::text is null or job_type = $1) and ($2::text is null or status = $2)
 order by job_id desc
 limit $4
