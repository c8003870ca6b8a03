-- A replay tries again what has failed or was left in doubt, once: whatever may have been sent is settled first.
update review.deliveries
   set status = 'pending', opened_by_job_id = $2
 where review_id = $1 and required and waived_by is null and notified_at is null and status in ('failed', 'reconciling')
   and opened_by_job_id is distinct from $2
