-- Does this claim still own its job? Asked before a stage runs that did not start with the claim (D-52).
select true from penstock.jobs as job
 where job.job_id = $1 and job.claim_seq = $2 and job.claimed_by = $3 and job.status = 'processing'
