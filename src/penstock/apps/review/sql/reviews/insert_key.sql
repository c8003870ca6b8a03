insert into review.creation_keys (idempotency_key, review_id) values ($1, $2)
