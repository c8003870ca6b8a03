-- moves: processing -> completed
-- One claim, inside job.transaction(): the application's rows and the completion commit together or not at all (C-60).
update penstock.jobs as job
   set status = 'completed', finished_at = penstock.now(), updated_at = penstock.now(), lease_expires_at = null
 where job.job_id = $1 and job.claim_seq = $2 and job.claimed_by = $3 and job.status = 'processing'
returning job.job_id
