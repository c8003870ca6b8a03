-- moves: queued -> processing
select job.job_id, job.job_type, job.stage, job.claim_seq, job.attempt_count, job.max_attempts, job.staged,
       job.priority, job.created_at, job.run_at, job.limit_key, job.replay_of_job_id, job.payload
  from penstock.claim_suspect($1, $2, $3, $4, $5, $6) as job
