update review.deliveries set last_error_code = $2 where delivery_id = $1 and notified_at is null
