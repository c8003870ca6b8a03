-- What is known of a delivery before anything is sent, held until the intent is committed (N-14, N-38).
select delivery_id, review_id, channel, address, required, token, payload, status, send_count, first_send_at, intent_id,
       notification_id, notified_at, last_error_code, waived_by is not null as waived, penstock.now() as now
  from review.deliveries
 where delivery_id = $1
   for update
