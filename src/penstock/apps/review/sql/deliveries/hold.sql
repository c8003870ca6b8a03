-- A send that may have happened, and nothing here can tell: a sweep or a person finds out (C-45).
update review.deliveries set status = 'reconciling', last_error_code = coalesce($2, last_error_code)
 where delivery_id = $1 and status = 'pending' and notified_at is null
returning review_id
