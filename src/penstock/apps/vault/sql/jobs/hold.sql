-- The job first and then its item, as everybody locks them who ends a job: two that lock the other way round would wait
-- for each other. No row: this claim has lost its job.
select job_id from penstock.jobs where job_id = $1 and claim_seq = $2 and status = 'processing' for update
