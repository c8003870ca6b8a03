-- One due batch of a type, for this run alone: two collectors never read the same results at once. A run that dies lets
-- go of it when the lease is over, and the fence on each job decides whatever both of them write.
update penstock.batches as batch
   set collector = $2, collector_until = penstock.now() + $3::interval
 where batch.batch_id = any(array(
       select due.batch_id
         from penstock.batches as due
        where due.job_type = $1 and due.state = 'submitted'
          and coalesce(due.next_poll_at, '-infinity') <= penstock.now()
          and coalesce(due.collector_until, '-infinity') <= penstock.now()
          and not due.batch_id = any($4::uuid[])
        order by due.next_poll_at nulls first
        limit 1
          for update skip locked))
returning batch.batch_id, batch.job_type, batch.stage, batch.adapter, batch.base_url, batch.provider, batch.model,
          batch.source_locale, batch.target_locale, batch.execution_mode, batch.item_count, batch.provider_batch_id,
          batch.input_file_id, batch.output_file_id, batch.error_file_id, batch.submitted_at, batch.deadline_at,
          batch.poll_failures, batch.missing_since, batch.cancel_asked_at, batch.cancel_sent_at,
          penstock.now() as now
