-- moves: queued -> processing
-- `claims/take` for one type: the same rules in a shorter plan. A single job waits as long for the parts of a plan to be
-- put together as for what they do, and most workers serve one type at a time.
update penstock.jobs as job
   set status = 'processing', claim_seq = job.claim_seq + 1, claimed_by = $3, run_id = $4,
       claimed_at = penstock.now(), updated_at = penstock.now(),
       lease_expires_at = penstock.now() + $8::interval
 where job.job_id = any(array(
       select j.job_id from penstock.jobs as j
        where j.job_type = $1 and j.status = 'queued' and j.ready
          and (j.priority, j.created_at, j.job_id) >= ($5::smallint, $6::timestamptz, $7::uuid)
          and (select not type.gated from penstock.types as type where type.job_type = $1)
        order by j.priority, j.created_at, j.job_id
        limit $2
          for update skip locked))
returning job.job_id, job.job_type, job.stage, job.claim_seq, job.attempt_count, job.max_attempts, job.staged,
          job.priority, job.created_at, job.run_at, job.limit_key, job.replay_of_job_id, job.payload
