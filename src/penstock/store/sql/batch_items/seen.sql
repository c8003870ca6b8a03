-- A poll has shown that the batch is over: what the provider calls it and where its results are, kept before they are
-- read, so that files are found again whatever happens to this run.
update penstock.batches as batch
   set polled_at = penstock.now(), provider_status = $3, poll_failures = 0, missing_since = null,
       input_file_id = coalesce(batch.input_file_id, $4), output_file_id = coalesce($5, batch.output_file_id),
       error_file_id = coalesce($6, batch.error_file_id)
 where batch.batch_id = $1 and batch.collector = $2 and batch.state = 'submitted'
returning true
