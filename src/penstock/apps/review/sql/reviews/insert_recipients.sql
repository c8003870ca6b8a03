insert into review.recipients (review_id, recipient, channel, address, required)
select $1, w.recipient, w.channel, w.address, w.required
  from unnest($2::text[], $3::text[], $4::text[], $5::boolean[]) as w(recipient, channel, address, required)
