-- The send that was written down by an intent whose reply was lost.
select max(attempt_id) from review.delivery_attempts where delivery_id = $1 and action = 'send' and outcome = 'started'
