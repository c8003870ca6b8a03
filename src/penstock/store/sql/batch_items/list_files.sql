-- Batches whose files are still at the provider and should not be: all that are collected where $2 says so, and those
-- of an erased home in any case. A submission that was given up may have left its input: an hour after the intent even
-- an upload whose outcome nobody knew has come to its end.
select b.batch_id, b.state, b.created_at, b.provider, b.model, b.adapter, b.base_url, b.provider_batch_id,
       b.input_file_id, b.output_file_id, b.error_file_id
  from penstock.batches as b
 where b.state in ('collected', 'abandoned') and b.files_deleted_at is null and b.job_type = $1
   and ($2 or b.erase_asked_at is not null)
   and coalesce(b.files_due_at, '-infinity') <= penstock.now()
   and (b.state = 'collected' or b.created_at <= penstock.now() - interval '1 hour')
 order by b.created_at
 limit $3
