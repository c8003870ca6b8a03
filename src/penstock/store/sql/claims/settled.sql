-- Which of these claims are recorded as completed by this very claim? Tells a reply that was lost from a lost lease.
select job.job_id, job.claim_seq
  from penstock.jobs as job
 where job.job_id = any(array(select unnest($1::uuid[])))
   and job.status = 'completed' and job.claimed_by = $3
   and coalesce((job.job_id, job.claim_seq) in (select done.job_id, done.claim_seq
                  from unnest($1::uuid[], $2::bigint[]) as done(job_id, claim_seq)), false)
