-- Batches whose files are still at the provider and should not be: all that are collected where $2 says so, and those
-- of an erased home in any case.
select b.batch_id, b.provider, b.model, b.adapter, b.base_url, b.provider_batch_id, b.input_file_id, b.output_file_id, b.error_file_id
  from penstock.batches as b
 where b.state = 'collected' and b.files_deleted_at is null and b.job_type = $1 and ($2 or b.erase_asked_at is not null)
   and coalesce(b.next_poll_at, '-infinity') <= penstock.now()
 order by b.collected_at
 limit $3
