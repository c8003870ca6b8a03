-- Who is told and how far that is; a recipient whose delivery is not there yet is pending.
select w.channel, w.address, w.required, coalesce(d.status, 'pending') as status, d.delivery_id, d.promise,
       d.notification_id, d.notified_at, d.provider_confirmed_at, d.last_error_code, d.waived_by is not null as waived
  from review.recipients as w
  left join review.deliveries as d on d.review_id = w.review_id and d.recipient = w.recipient
 where w.review_id = $1
 order by w.required desc, w.recipient
