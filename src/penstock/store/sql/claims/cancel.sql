-- moves: processing -> canceled
-- The handler asked for it.
update penstock.jobs as job
   set status = 'canceled', finished_at = penstock.now(), updated_at = penstock.now(), lease_expires_at = null,
       last_error_at = penstock.now(), last_error_code = 'CANCELED', last_error_message = $4
 where (select set_config('lock_timeout', $5, true)) is not null
   and job.job_id = $1 and job.claim_seq = $2 and job.claimed_by = $3 and job.status = 'processing'
returning job.job_id
