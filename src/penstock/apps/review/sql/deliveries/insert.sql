-- One row for each intent that somebody is told; a row that is there stays as it is (N-08, N-35).
insert into review.deliveries (delivery_id, review_id, changelist_id, recipient, review_version, channel, address, required,
                               promise, token, payload)
select d.delivery_id, r.review_id, r.changelist_id, d.recipient, r.review_version, d.channel, d.address, d.required,
       d.promise, d.token, d.payload
  from review.reviews as r,
       unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::text[], $8::text[], $9::bytea[])
       as d(delivery_id, recipient, channel, address, required, promise, token, payload)
 where r.review_id = $1
on conflict do nothing
