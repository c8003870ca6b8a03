-- What the sender's idempotency key stands for. It was accepted if it got a job, whatever became of that later.
select rewrite_request_id, fingerprint, status, failure_code,
       exists (select from rewrite.rewrite_jobs j where j.rewrite_request_id = r.rewrite_request_id) as accepted
  from rewrite.rewrite_requests r
 where home_id = $1 and sender_user_id = $2 and idempotency_key = $3
