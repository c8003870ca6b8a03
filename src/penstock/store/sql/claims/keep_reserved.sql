-- Extends a reservation, or ends it ($3 null); a reservation that has passed to another worker is left alone.
update penstock.jobs as job
   set reserved_until = penstock.now() + $3::interval, updated_at = penstock.now()
 where job.job_id = $1 and job.reserved_until = $2 and job.status = 'queued'
returning job.reserved_until
