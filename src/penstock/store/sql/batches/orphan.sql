-- A batch has turned up at the provider whose submission had been given up; it was cancelled there. Told once.
with batch as (
    update penstock.batches as b
       set provider_batch_id = coalesce(b.provider_batch_id, $2), cancel_asked_at = coalesce(b.cancel_asked_at, penstock.now())
     where b.batch_id = $1 and b.state = 'abandoned' and b.cancel_asked_at is null
    returning b.batch_id, b.job_type, b.item_count
)
insert into penstock.alerts (kind, severity, subject)
select 'batch_orphan_cancelled', 'alert',
       jsonb_build_object('job_type', batch.job_type, 'batch_id', batch.batch_id, 'jobs', batch.item_count)
  from batch
