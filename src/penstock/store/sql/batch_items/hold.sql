-- The fence, held until the transaction ends: does the job still wait for this very item?
select true from penstock.jobs as job
 where job.job_id = $1 and job.claim_seq = $2 and job.status = 'batch_submitted'
   for update
