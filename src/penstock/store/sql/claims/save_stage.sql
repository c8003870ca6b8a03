-- moves: batch_submitted -> queued
-- Jobs parked in a batch whose items have settled on a stage that is not the last: the results are saved and the jobs
-- go back for the next stage, no attempt charged (C-05). A late result of an earlier claim loses to the fence.
with settled as materialized (
    select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::jsonb[])
        as s(job_id, claim_seq, stage, next_stage, result)
), moved as (
    update penstock.jobs as job
       set status = 'queued', stage = s.next_stage, staged = true, ready = true, run_at = penstock.now(),
           updated_at = penstock.now(), claimed_by = null, claimed_at = null
      from settled as s
     where job.job_id = any(array(select unnest($1::uuid[])))
       and s.job_id = job.job_id and s.claim_seq = job.claim_seq and s.stage = job.stage
       and job.status = 'batch_submitted'
    returning job.job_id, s.stage, s.result
)
insert into penstock.stages as st (job_id, stage, finished_at, result)
select moved.job_id, moved.stage, penstock.now(), moved.result from moved
on conflict (job_id, stage) do update set finished_at = excluded.finished_at, result = excluded.result
returning st.job_id
