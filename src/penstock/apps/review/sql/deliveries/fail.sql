-- This recipient is not told. $3: it was looked up and found absent, so that no send counts any more.
update review.deliveries
   set status = 'failed', last_error_code = coalesce($2, last_error_code),
       reconciled_at = case when $3 then penstock.now() else reconciled_at end,
       send_count = case when $3 then 0 else send_count end, first_send_at = case when not $3 then first_send_at end
 where delivery_id = $1 and status = 'pending' and notified_at is null
returning review_id
