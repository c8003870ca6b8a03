-- The send of this intent has certainly not happened, so it does not count.
update review.deliveries
   set send_count = send_count - 1, intent_id = null, first_send_at = case when send_count > 1 then first_send_at end
 where delivery_id = $1 and intent_id = $2 and notified_at is null and send_count > 0
