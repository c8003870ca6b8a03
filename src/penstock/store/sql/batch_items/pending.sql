-- What waits for the collector of a type: batches to poll, submissions in doubt, files to delete.
select (select count(*) from penstock.batches as b
         where b.state = 'submitted' and b.job_type = $1 and coalesce(b.next_poll_at, '-infinity') <= penstock.now())
     + (select count(*) from penstock.batches as b where b.state in ('building', 'uncertain') and b.job_type = $1)
     + (select count(*) from penstock.batches as b
         where b.state = 'collected' and b.files_deleted_at is null and b.job_type = $1
           and ($2 or b.erase_asked_at is not null) and coalesce(b.next_poll_at, '-infinity') <= penstock.now())
