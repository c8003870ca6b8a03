-- moves: processing -> queued
-- Claims under this worker's name that it does not hold: the claim was committed and its reply got lost. Nothing of
-- them has run, so no attempt is used. A worker's name belongs to one process at a time.
update penstock.jobs as job
   set status = 'queued', ready = not job.suspect, updated_at = penstock.now(), lease_expires_at = null, claimed_by = null,
       claimed_at = null
 where job.job_id = any(array(
       select j.job_id from penstock.jobs as j
        where j.status = 'processing' and j.lease_expires_at is not null and j.claimed_by = $1
          and j.claimed_at >= penstock.now() - $3::interval
          and not j.job_id = any($2::uuid[])
          -- A submission may be under way or in doubt: its jobs are for its recovery alone (C-36).
          and not exists (select from penstock.effects as e
                           where e.job_id = j.job_id and e.claim_seq = j.claim_seq and e.holds_claim
                             and e.state in ('intended', 'uncertain'))
          for update skip locked))
   and job.status = 'processing' and job.claimed_by = $1
