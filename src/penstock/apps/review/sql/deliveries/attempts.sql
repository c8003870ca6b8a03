select at, action, attempt, outcome, job_id from review.delivery_attempts where delivery_id = $1 order by attempt_id
