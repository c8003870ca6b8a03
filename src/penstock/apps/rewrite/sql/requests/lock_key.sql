-- Two calls with one idempotency key wait for each other: the second finds what the first has stored.
select pg_advisory_xact_lock(penstock.lock_key(concat_ws(':', 'rewrite_requests', $1::uuid, $2::uuid, $3::text)))
