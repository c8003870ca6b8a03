-- What a poll has shown, and when to look again; the lease ends with it. Ids of files are kept once they are known.
update penstock.batches as batch
   set polled_at = penstock.now(), next_poll_at = penstock.now() + $3::interval,
       provider_status = coalesce($4, batch.provider_status),
       input_file_id = coalesce(batch.input_file_id, $5), output_file_id = coalesce($6, batch.output_file_id),
       error_file_id = coalesce($7, batch.error_file_id),
       poll_failures = case when $8::text is null then 0 else batch.poll_failures + 1 end,
       last_error_code = coalesce($8, batch.last_error_code),
       missing_since = case when $9 then coalesce(batch.missing_since, penstock.now()) end,
       cancel_sent_at = case when $10 then coalesce(batch.cancel_sent_at, penstock.now()) else batch.cancel_sent_at end,
       collector = null, collector_until = null
 where batch.batch_id = $1 and batch.collector = $2 and batch.state = 'submitted'
returning true
