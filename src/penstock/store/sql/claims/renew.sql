-- Heartbeat: the leases of claims still held. A row that somebody's transaction holds is passed over, so that no other
-- lease waits for it, and comes back as not renewed: it is still ours. What does not come back is lost.
with mine as materialized (
    select job.job_id, job.claim_seq, held.lease
      from penstock.jobs as job, unnest($1::uuid[], $2::bigint[], $4::interval[]) as held(job_id, claim_seq, lease)
     where job.job_id = any(array(select unnest($1::uuid[])))
       and held.job_id = job.job_id and held.claim_seq = job.claim_seq
       and job.status = 'processing' and job.claimed_by = $3
), free as materialized (
    select job.job_id
      from penstock.jobs as job
     where job.job_id = any(array(select mine.job_id from mine))
       for no key update skip locked
), renewed as (
    -- Whoever had the row may have committed since `mine` was read: the claim is compared once more
    update penstock.jobs as job
       set lease_expires_at = (select penstock.now()) + mine.lease, updated_at = (select penstock.now())
      from mine
     where job.job_id = any(array(select free.job_id from free))
       and (job.job_id, job.claim_seq) = (mine.job_id, mine.claim_seq)
       and (job.status, job.claimed_by) = ('processing', $3)
    returning job.job_id
)
select mine.job_id, mine.job_id = any(array(select renewed.job_id from renewed)) as renewed
  from mine
