select count(*)
  from penstock.jobs as j
 where j.status = 'processing' and j.lease_expires_at is not null
   and j.lease_expires_at < penstock.now() - $1::interval
   -- Jobs of a submission in doubt are for its recovery, and an alert tells of them.
   and not exists (select from penstock.effects as e
                    where e.job_id = j.job_id and e.claim_seq = j.claim_seq and e.holds_claim
                      and e.state in ('intended', 'uncertain'))
