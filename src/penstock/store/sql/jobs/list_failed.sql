-- Failed jobs, the newest failure first.
select job_id, job_type, stage, status, priority, attempt_count, max_attempts, created_at, run_at, claimed_by, finished_at,
       last_error_code
  from penstock.jobs
 where status = 'failed' and ($1::text is null or job_type = $1)
 order by finished_at desc
 limit $2
