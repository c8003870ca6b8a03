-- Deliveries with their proof, the newest first; nobody's address.
select delivery_id, review_id, changelist_id, review_version, channel, required, promise, status, send_count,
       notification_id, notified_at, provider_confirmed_at, reconciled_at, last_error_code, waived_by, created_at
  from review.deliveries
 where ($1::text is null or status = $1) and ($2::text is null or channel = $2)
   and ($3::uuid is null or review_id = $3) and ($4::text is null or changelist_id = $4)
 order by created_at desc, delivery_id
 limit $5
