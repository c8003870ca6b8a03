-- Jobs that are being worked on, the longest first.
select job_id, job_type, stage, status, priority, attempt_count, max_attempts, created_at, run_at, claimed_by, claimed_at,
       lease_expires_at, finished_at, last_error_code
  from penstock.jobs
 where status = 'processing' and lease_expires_at is not null and ($1::text is null or job_type = $1)
 order by claimed_at, job_id
 limit $2
