select delivery_id, review_id, changelist_id, review_version, recipient, channel, required, promise, status, send_count,
       first_send_at, send_started_at, notification_id, notified_at, provider_confirmed_at, reconciled_at, looked_up_at,
       last_error_code, waived_by, token, created_at
  from review.deliveries
 where delivery_id = $1
