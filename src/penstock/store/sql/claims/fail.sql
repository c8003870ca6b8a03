-- moves: processing -> failed
-- Claims that end for good, each with its dead letter in the same statement (C-02). Fenced pair by pair.
with verdict as materialized (
    select * from unnest($1::uuid[], $2::bigint[], $4::text[], $5::text[], $6::boolean[], $7::text[], $8::text[],
                         $9::jsonb[], $10::integer[], $11::text[])
        as v(job_id, claim_seq, code, message, retryable, reason, stack, context, attempts, alert)
), moved as (
    update penstock.jobs as job
       set status = 'failed', finished_at = penstock.now(), updated_at = penstock.now(), lease_expires_at = null,
           attempt_count = job.attempt_count + 1,
           first_failure_at = coalesce(job.first_failure_at, penstock.now()),
           last_error_at = penstock.now(), last_error_code = v.code, last_error_message = v.message
      from verdict as v
     where (select set_config('lock_timeout', $12, true)) is not null
       and job.job_id = any(array(select unnest($1::uuid[])))
       and v.job_id = job.job_id and v.claim_seq = job.claim_seq
       and job.status = 'processing' and job.claimed_by = $3
    returning job.job_id, job.claim_seq, job.stage, job.staged, job.job_type, job.replay_of_job_id, job.first_failure_at,
              v.code, v.retryable, v.reason, v.stack, v.context, v.attempts, v.alert
), charged_stages as (
    insert into penstock.stages as s (job_id, stage, attempts, first_failure_at, last_failure_at)
    select moved.job_id, moved.stage, 1, penstock.now(), penstock.now() from moved where moved.staged
    on conflict (job_id, stage) do update
       set attempts = s.attempts + 1, last_failure_at = excluded.last_failure_at,
           first_failure_at = coalesce(s.first_failure_at, excluded.first_failure_at)
)
select moved.job_id, moved.claim_seq,
       penstock.bury(moved.job_id, moved.replay_of_job_id, moved.job_type, moved.stage, moved.code, moved.retryable,
                     moved.reason, moved.stack, moved.context, moved.attempts,
                     coalesce((select s.first_failure_at from penstock.stages as s
                                where moved.staged and s.job_id = moved.job_id and s.stage = moved.stage),
                              case when moved.staged then penstock.now() else moved.first_failure_at end),
                     moved.alert)
  from moved
