-- The absence is proven. The batch is watched for a while all the same: one that appears after this is nobody's, and
-- is cancelled. Returns the keys of its intents, which are given up in the same transaction.
with batch as (
    update penstock.batches as b
       set state = 'abandoned', last_error_code = 'ABSENT', collector = null, collector_until = null,
           next_poll_at = penstock.now() + $3::interval
     where b.batch_id = $1 and b.collector = $2 and b.state in ('building', 'uncertain')
    returning b.batch_id
), settled as (
    update penstock.batch_items as i
       set state = 'requeued', code = 'ABSENT', settled_at = penstock.now()
      from batch
     where i.batch_id = batch.batch_id and i.state = 'open'
)
select 'batch:' || i.custom_id as effect_key
  from batch join penstock.batch_items as i on i.batch_id = batch.batch_id
