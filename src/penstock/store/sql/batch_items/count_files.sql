-- Collected batches whose files are due to be deleted at their provider.
select count(*)
  from penstock.batches as b
 where b.state = 'collected' and b.files_deleted_at is null and b.job_type = $1 and ($2 or b.erase_asked_at is not null)
   and coalesce(b.next_poll_at, '-infinity') <= penstock.now()
