-- moves: processing -> queued
-- Claims that end without an end: failed attempts with budget left, snoozes, overflow, shutdown. Fenced pair by pair.
-- A suspect whose handler has ended by itself is none any more; one that never ran, or was stopped, stays one.
with verdict as materialized (
    select * from unnest($1::uuid[], $2::bigint[], $4::interval[], $5::boolean[], $6::text[], $7::text[], $9::boolean[])
        as v(job_id, claim_seq, delay, charged, code, message, survived)
), moved as (
    update penstock.jobs as job
       set status = 'queued', ready = v.delay <= interval '0' and (v.survived or not job.suspect),
           suspect = job.suspect and not v.survived,
           reserved_until = case when job.suspect and not v.survived and v.delay > interval '0' then penstock.now() + v.delay end,
           run_at = penstock.now() + v.delay,
           updated_at = penstock.now(), lease_expires_at = null, claimed_by = null, claimed_at = null,
           attempt_count = job.attempt_count + v.charged::integer,
           first_failure_at = case when v.charged then coalesce(job.first_failure_at, penstock.now())
                                   else job.first_failure_at end,
           last_error_at = case when v.code is null then job.last_error_at else penstock.now() end,
           last_error_code = coalesce(v.code, job.last_error_code),
           last_error_message = case when v.code is null then job.last_error_message else v.message end
      from verdict as v
     where (select set_config('lock_timeout', $8, true)) is not null
       and job.job_id = any(array(select unnest($1::uuid[])))
       and v.job_id = job.job_id and v.claim_seq = job.claim_seq
       and job.status = 'processing' and job.claimed_by = $3
    returning job.job_id, job.claim_seq, job.stage, job.staged, v.charged
), charged_stages as (
    insert into penstock.stages as s (job_id, stage, attempts, first_failure_at, last_failure_at)
    select moved.job_id, moved.stage, 1, penstock.now(), penstock.now() from moved where moved.staged and moved.charged
    on conflict (job_id, stage) do update
       set attempts = s.attempts + 1, last_failure_at = excluded.last_failure_at,
           first_failure_at = coalesce(s.first_failure_at, excluded.first_failure_at)
)
select moved.job_id, moved.claim_seq from moved
