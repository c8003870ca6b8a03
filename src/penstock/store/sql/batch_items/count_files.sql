-- Batches whose files are due to be deleted at their provider, as list_files has them.
select count(*)
  from penstock.batches as b
 where b.state in ('collected', 'abandoned') and b.files_deleted_at is null and b.job_type = $1
   and ($2 or b.erase_asked_at is not null)
   and coalesce(b.files_due_at, '-infinity') <= penstock.now()
   and (b.state = 'collected' or b.created_at <= penstock.now() - interval '1 hour')
