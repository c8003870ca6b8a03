-- Where this very claim stands: tells a commit whose reply was lost from one that did not happen.
select job.status, job.stage from penstock.jobs as job
 where job.job_id = $1 and job.claim_seq = $2 and job.claimed_by = $3
