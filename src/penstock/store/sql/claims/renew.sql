-- Heartbeat: the leases of claims still held. What does not come back is lost.
update penstock.jobs as job
   set lease_expires_at = (select penstock.now()) + held.lease, updated_at = (select penstock.now())
  from unnest($1::uuid[], $2::bigint[], $4::interval[]) as held(job_id, claim_seq, lease)
 where job.job_id = any(array(select unnest($1::uuid[])))
   and held.job_id = job.job_id and held.claim_seq = job.claim_seq
   and job.status = 'processing' and job.claimed_by = $3
returning job.job_id
