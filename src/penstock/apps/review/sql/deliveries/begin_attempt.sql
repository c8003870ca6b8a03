-- A send that is about to be made (N-20).
insert into review.delivery_attempts (delivery_id, job_id, attempt, action, outcome)
select $1::uuid, $2::uuid, 1 + count(*), 'send', 'started'
  from review.delivery_attempts where delivery_id = $1 and action = 'send'
returning attempt_id
