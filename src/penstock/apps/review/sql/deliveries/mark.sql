-- The one write that says that somebody was told (N-12). $3: their provider has said so when it was asked.
update review.deliveries
   set notification_id = $2, notified_at = penstock.now(), status = 'sent', last_error_code = null,
       provider_confirmed_at = case when $3 then penstock.now() end,
       reconciled_at = case when $3 then penstock.now() else reconciled_at end
 where delivery_id = $1 and notified_at is null
