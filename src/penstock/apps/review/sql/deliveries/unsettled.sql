-- What a sweep asks providers about: sent and not confirmed for a while, or in doubt. $1: channels that know a token, $2:
-- channels that know an id. Those that were asked longest ago come first, so that one that never answers stops nobody.
select delivery_id, channel, token, status, notification_id, notified_at
  from review.deliveries
 where (channel = any($1::text[]) or (channel = any($2::text[]) and notification_id is not null))
   and ((status = 'sent' and notified_at < penstock.now() - $3::interval and provider_confirmed_at is null)
        or status = 'reconciling')
   and ($4::uuid[] is null or delivery_id = any($4))
   and ($4::uuid[] is not null or looked_up_at is null or looked_up_at < penstock.now() - $3::interval)
 order by looked_up_at nulls first, created_at
 limit $5
