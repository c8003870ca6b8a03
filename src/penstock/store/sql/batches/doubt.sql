-- Nobody can tell whether the provider has taken the batch. Its jobs stay where they are, held by the intent; their
-- leases end now, so that the next recovery may ask at once (C-36). Lost already when a recovery was quicker.
with batch as (
    update penstock.batches as b
       set state = 'uncertain', last_error_code = $3
     where b.batch_id = $1 and b.state = 'building' and b.collector is null
    returning b.batch_id
), items as materialized (
    select i.job_id, i.claim_seq, i.custom_id
      from batch join penstock.batch_items as i on i.batch_id = batch.batch_id
), doubted as (
    update penstock.effects as e
       set state = 'uncertain'
     where e.effect_key = any(array(select 'batch:' || items.custom_id from items)) and e.state = 'intended'
    returning e.effect_key
), noted as (
    insert into penstock.effect_attempts (effect_key, at, action, outcome)
    select doubted.effect_key, penstock.now(), 'perform', 'unknown ' || $3::text from doubted
)
update penstock.jobs as job
   set lease_expires_at = penstock.now(), updated_at = penstock.now()
  from items
 where job.job_id = any(array(select items.job_id from items))
   and items.job_id = job.job_id and items.claim_seq = job.claim_seq
   and job.status = 'processing' and job.claimed_by = $2
