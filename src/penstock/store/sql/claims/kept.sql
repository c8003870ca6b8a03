-- Which of these claims still own their jobs, or have completed them by themselves? The others were taken away.
select job.job_id, job.claim_seq
  from penstock.jobs as job
 where job.job_id = any(array(select unnest($1::uuid[])))
   and job.status in ('processing', 'completed') and job.claimed_by = $3
   and coalesce((job.job_id, job.claim_seq) in (select held.job_id, held.claim_seq
                  from unnest($1::uuid[], $2::bigint[]) as held(job_id, claim_seq)), false)
