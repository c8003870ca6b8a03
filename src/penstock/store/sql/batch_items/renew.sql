-- The run still collects this batch. Nothing comes back when another one does.
update penstock.batches as batch
   set collector_until = penstock.now() + $3::interval
 where batch.batch_id = $1 and batch.collector = $2 and batch.state = 'submitted'
returning true
