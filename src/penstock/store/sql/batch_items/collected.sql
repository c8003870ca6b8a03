-- The batch is done with: every item has an end of its own. Refused while one is open.
update penstock.batches as batch
   set state = 'collected', collected_at = penstock.now(), next_poll_at = null, collector = null, collector_until = null,
       last_error_code = coalesce($3, batch.last_error_code)
 where batch.batch_id = $1 and batch.collector = $2 and batch.state = 'submitted'
   and not exists (select from penstock.batch_items as item where item.batch_id = batch.batch_id and item.state = 'open')
returning true
