-- Recipients of a review who have no delivery yet, in a stable order.
select w.recipient, w.channel, w.address, w.required
  from review.recipients as w
 where w.review_id = $1
   and not exists (select from review.deliveries as d where d.review_id = w.review_id and d.recipient = w.recipient)
 order by w.recipient
