-- A stage is done: its result is saved and the job goes on to the next one, under the same claim. A job enqueued when
-- its type had one stage becomes a staged one; what it has failed so far was of this stage.
with moved as (
    update penstock.jobs as job
       set stage = $4, staged = true, updated_at = penstock.now()
     where job.job_id = $1 and job.claim_seq = $2 and job.claimed_by = $3 and job.status = 'processing' and job.stage = $5
    returning job.job_id, job.attempt_count, job.first_failure_at, job.last_error_at
)
insert into penstock.stages as s (job_id, stage, finished_at, result, attempts, first_failure_at, last_failure_at)
select moved.job_id, $5, penstock.now(), $6::jsonb,
       case when $7 then 0 else moved.attempt_count end,
       case when not $7 then moved.first_failure_at end, case when not $7 then moved.last_error_at end
  from moved
on conflict (job_id, stage) do update set finished_at = excluded.finished_at, result = excluded.result
returning s.job_id
