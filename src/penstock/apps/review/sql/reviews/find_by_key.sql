select review_id from review.creation_keys where idempotency_key = $1
