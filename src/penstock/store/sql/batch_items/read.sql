-- Open items with the jobs they stand for. `parked`: the job still waits for this very item (C-35).
select item.batch_item_index, item.custom_id, item.job_id, item.claim_seq,
       coalesce(job.status = 'batch_submitted' and job.claim_seq = item.claim_seq, false) as parked,
       job.job_type, job.stage, job.staged, job.max_attempts, job.priority, job.created_at, job.run_at, job.limit_key,
       job.replay_of_job_id, job.payload,
       case when job.staged then coalesce((select s.attempts from penstock.stages as s
                                            where s.job_id = job.job_id and s.stage = job.stage), 0)
            else job.attempt_count end as attempts
  from penstock.batch_items as item
  left join penstock.jobs as job on job.job_id = item.job_id
 where item.batch_id = $1 and item.batch_item_index = any($2::integer[]) and item.state = 'open'
 order by item.batch_item_index
