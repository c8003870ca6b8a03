-- What the sender's idempotency key stands for.
select rewrite_request_id, fingerprint, status, failure_code
  from rewrite.rewrite_requests
 where home_id = $1 and sender_user_id = $2 and idempotency_key = $3
