update review.delivery_attempts set outcome = left($2, 50) where attempt_id = $1 and outcome = 'started'
