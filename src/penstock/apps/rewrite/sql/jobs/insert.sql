-- The detail of a job: what was decided is taken from the request itself, so the two cannot differ (A-28, L-42).
insert into rewrite.rewrite_jobs
       (job_id, rewrite_request_id, home_id, sender_user_id, recipient_user_id, recipient_snapshot_id,
        recipient_preference_snapshot_id, source_locale, target_locale, lane, routing_decision)
select $1, r.rewrite_request_id, r.home_id, r.sender_user_id, r.recipient_user_id, r.recipient_snapshot_id,
       r.recipient_preference_snapshot_id, r.source_locale, r.target_locale, r.lane, $3::jsonb
  from rewrite.rewrite_requests as r
 where r.rewrite_request_id = $2
on conflict (rewrite_request_id, recipient_user_id) do nothing
returning true
