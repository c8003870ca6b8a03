-- Every delivery of a review. `now` is the clock that windows are measured by.
select delivery_id, review_id, channel, address, required, token, payload, status, send_count, first_send_at, intent_id,
       notification_id, notified_at, last_error_code, waived_by is not null as waived, penstock.now() as now
  from review.deliveries
 where review_id = $1
 order by recipient
