-- moves: queued -> processing
-- One probe per type on idx_outbox_runnable, so nobody else's backlog is walked over. $5..$7 say, per type, where the
-- live part of the index begins (a hint, see engine/marks.py). claim_seq is the fence: every later write names it.
-- Gated types are left to penstock.claim_gated.
update penstock.jobs as job
   set status = 'processing', claim_seq = job.claim_seq + 1, claimed_by = $3, run_id = $4,
       claimed_at = (select penstock.now()), updated_at = (select penstock.now()),
       lease_expires_at = (select penstock.now()) + lease.span
  from unnest($1::text[], $8::interval[]) as lease(job_type, span)
 where lease.job_type = job.job_type
   and job.job_id = any(array(
       select due.job_id
         from unnest($1::text[], $5::smallint[], $6::timestamptz[], $7::uuid[]) as mark(job_type, priority, created_at, job_id)
         join penstock.types as type on type.job_type = mark.job_type and not type.gated
        cross join lateral (
              select j.job_id from penstock.jobs as j
               where j.job_type = mark.job_type and j.status = 'queued' and j.ready
                 and (j.priority, j.created_at, j.job_id) >= (mark.priority, mark.created_at, mark.job_id)
               order by j.priority, j.created_at, j.job_id
               limit $2
                 for update skip locked) as due
        limit $2))
returning job.job_id, job.job_type, job.stage, job.claim_seq, job.attempt_count, job.max_attempts, job.staged,
          job.priority, job.created_at, job.run_at, job.limit_key, job.replay_of_job_id, job.payload
