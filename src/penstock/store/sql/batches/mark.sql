-- moves: processing -> batch_submitted
-- The provider has the batch: from here on its jobs wait for it and hold no worker (Q-13, Q-74, C-05). $7 is the worker
-- whose claims they are, or null; $8 the recovery that has adopted the submission, or null. A submission that a
-- recovery has adopted is no longer its submitter's to mark. A job that was canceled meanwhile stays canceled.
with batch as (
    update penstock.batches as b
       set state = 'submitted', provider_batch_id = $2, input_file_id = coalesce($3, b.input_file_id),
           submitted_at = penstock.now(), deadline_at = coalesce($4::timestamptz, penstock.now() + $5::interval) + $6::interval,
           next_poll_at = penstock.now(), missing_since = null, poll_failures = 0, last_error_code = null,
           collector = null, collector_until = null
     where b.batch_id = $1 and b.state in ('building', 'uncertain') and b.collector is not distinct from $8::text
    returning b.batch_id
), items as materialized (
    select i.job_id, i.claim_seq, i.custom_id
      from batch join penstock.batch_items as i on i.batch_id = batch.batch_id
), performed as (
    update penstock.effects as e
       set state = 'done', done_at = penstock.now(), settled_at = case when $8::text is not null then penstock.now() end,
           result = jsonb_build_object('provider_batch_id', $2::text), adopted_by = null, adopted_until = null
     where e.effect_key = any(array(select 'batch:' || items.custom_id from items)) and e.state in ('intended', 'uncertain')
    returning e.effect_key
), noted as (
    insert into penstock.effect_attempts (effect_key, at, action, outcome)
    select performed.effect_key, penstock.now(), case when $8::text is null then 'mark' else 'settle' end,
           case when $8::text is null then 'done' else 'found' end
      from performed
), moved as (
    update penstock.jobs as job
       set status = 'batch_submitted', updated_at = penstock.now(), lease_expires_at = null, claimed_by = null,
           claimed_at = null, provider_batch_id = coalesce(job.provider_batch_id, $2), suspect = false
      from items
     where job.job_id = any(array(select items.job_id from items))
       and items.job_id = job.job_id and items.claim_seq = job.claim_seq
       and job.status = 'processing' and ($7::text is null or job.claimed_by = $7)
    returning job.job_id
)
select exists (select from batch) as marked, array(select moved.job_id from moved) as moved
