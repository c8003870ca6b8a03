-- One job, without its payload: a column that operators and viewers may not read (C-68).
select j.job_id, j.created_at, j.updated_at, j.run_at, j.claimed_at, j.lease_expires_at, j.finished_at, j.first_failure_at,
       j.last_error_at, j.claim_seq, j.attempt_count, j.max_attempts, j.reclaim_count, j.priority, j.ready, j.audited,
       j.staged, j.status, j.job_type, j.stage, j.claimed_by, j.run_id, j.idempotency_key, j.limit_key, j.last_error_code,
       j.last_error_message, j.replay_of_job_id, j.superseded_by_job_id, j.provider_batch_id, j.suspect, j.reserved_until
  from penstock.jobs as j
 where j.job_id = $1
