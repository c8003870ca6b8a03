-- A question to a provider, asked by a job (N-20).
insert into review.delivery_attempts (delivery_id, job_id, attempt, action, outcome)
select delivery_id, $2, send_count, 'lookup', left($3, 50) from review.deliveries where delivery_id = $1
