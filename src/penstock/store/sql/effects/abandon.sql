-- moves: processing -> queued
-- A recovery has proven that the effects did not happen. Jobs that these intents held go back, no attempt used (C-36).
with gone as (
    update penstock.effects as e
       set state = 'abandoned', settled_at = penstock.now(), adopted_by = null, adopted_until = null
     where e.effect_key = any($1::text[]) and e.adopted_by = $2 and e.state in ('intended', 'uncertain')
    returning e.effect_key, e.job_id, e.claim_seq, e.holds_claim
), noted as (
    insert into penstock.effect_attempts (effect_key, at, action, outcome)
    select gone.effect_key, penstock.now(), 'settle', 'absent' from gone
), released as (
    update penstock.jobs as job
       set status = 'queued', ready = true, run_at = penstock.now(), updated_at = penstock.now(), lease_expires_at = null,
           claimed_by = null, claimed_at = null
      from gone
     where gone.holds_claim and job.job_id = gone.job_id and job.claim_seq = gone.claim_seq and job.status = 'processing'
)
select gone.effect_key from gone
