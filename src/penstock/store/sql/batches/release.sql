-- moves: processing -> queued
-- The provider has certainly not taken the batch: every job of it goes back with no attempt used, whoever is to blame
-- (C-37 e). $5: hold the type back as well, and tell a person, once while its breaker stays open.
with batch as (
    update penstock.batches as b
       set state = 'abandoned', last_error_code = $3
     where b.batch_id = $1 and b.state = 'building' and b.collector is null
    returning b.batch_id, b.job_type, b.item_count
), items as materialized (
    select i.job_id, i.claim_seq, i.custom_id
      from batch join penstock.batch_items as i on i.batch_id = batch.batch_id
), undone as (
    update penstock.effects as e
       set state = 'abandoned', settled_at = penstock.now()
     where e.effect_key = any(array(select 'batch:' || items.custom_id from items)) and e.state = 'intended'
    returning e.effect_key
), noted as (
    insert into penstock.effect_attempts (effect_key, at, action, outcome)
    select undone.effect_key, penstock.now(), 'perform', 'not_performed ' || $3::text from undone
), settled as (
    update penstock.batch_items as i
       set state = 'requeued', code = $3, settled_at = penstock.now()
      from batch
     where i.batch_id = batch.batch_id and i.state = 'open'
), moved as (
    update penstock.jobs as job
       set status = 'queued', ready = $4::interval <= interval '0', run_at = penstock.now() + $4::interval,
           updated_at = penstock.now(), lease_expires_at = null, claimed_by = null, claimed_at = null,
           last_error_at = penstock.now(), last_error_code = $3, last_error_message = null, suspect = false
      from items
     where job.job_id = any(array(select items.job_id from items))
       and items.job_id = job.job_id and items.claim_seq = job.claim_seq
       and job.status = 'processing' and job.claimed_by = $2
    returning job.job_id
), told as (
    insert into penstock.alerts (kind, severity, subject)
    select 'batch_submission_refused', 'alert',
           jsonb_build_object('job_type', batch.job_type, 'batch_id', batch.batch_id, 'code', $3::text,
                              'upstream_code', $6::text, 'jobs', batch.item_count)
      from batch join penstock.types as t on t.job_type = batch.job_type
     where $5::boolean and t.breaker = 'closed'
)
select array(select moved.job_id from moved) as moved,
       (select penstock.open_breaker(batch.job_type, $3, $4) from batch where $5::boolean) as opened
