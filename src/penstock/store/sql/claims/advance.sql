-- A stage is done: its result is saved and the job goes on to the next one, under the same claim.
with moved as (
    update penstock.jobs as job
       set stage = $4, updated_at = penstock.now()
     where job.job_id = $1 and job.claim_seq = $2 and job.claimed_by = $3 and job.status = 'processing' and job.stage = $5
    returning job.job_id
)
insert into penstock.stages as s (job_id, stage, finished_at, result)
select moved.job_id, $5, penstock.now(), $6::jsonb from moved
on conflict (job_id, stage) do update set finished_at = excluded.finished_at, result = excluded.result
returning s.job_id
