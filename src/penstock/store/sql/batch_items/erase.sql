-- The home of these jobs is being erased: whatever the setting says, the files of their batches go.
update penstock.batches as batch
   set erase_asked_at = coalesce(batch.erase_asked_at, penstock.now()),
       files_due_at = null
 where batch.files_deleted_at is null
   and batch.batch_id = any(array(
       select item.batch_id from penstock.batch_items as item where item.job_id = any($1::uuid[])))
returning batch.batch_id, batch.state, batch.job_type
