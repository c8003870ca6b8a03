-- The try of a claim is over without a mark: in doubt for good, or proven not to have happened.
update penstock.effects as e
   set state = $4, settled_at = penstock.now()
 where e.effect_key = $1 and e.job_id = $2 and e.claim_seq = $3 and e.state = 'intended'
returning e.effect_key
