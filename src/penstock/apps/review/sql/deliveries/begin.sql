-- The intent of a send, which is no mark: what is counted may have happened (C-42).
update review.deliveries
   set send_count = send_count + 1, send_started_at = penstock.now(), intent_id = $2,
       first_send_at = coalesce(first_send_at, penstock.now())
 where delivery_id = $1
