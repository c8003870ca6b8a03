-- Everything that one execution needs, as it was frozen (C-39).
select d.job_id, d.rewrite_request_id, d.home_id, d.sender_user_id, d.recipient_user_id, d.recipient_snapshot_id,
       d.recipient_preference_snapshot_id, d.source_locale, d.target_locale, d.lane, d.routing_decision,
       r.classifier_result, r.rewrite_request, r.status as request_status, p.tone, p.blocked_terms,
       j.status, j.attempt_count, j.max_attempts, j.claim_seq, j.provider_batch_id,
       exists (select from rewrite.rewrite_outputs as o
                where o.rewrite_request_id = d.rewrite_request_id and o.recipient_user_id = d.recipient_user_id)
           as slot_filled
  from rewrite.rewrite_jobs as d
  join rewrite.rewrite_requests as r using (rewrite_request_id)
  join rewrite.recipient_preference_snapshots as p
    on p.recipient_preference_snapshot_id = r.recipient_preference_snapshot_id
  join penstock.jobs as j on j.job_id = d.job_id
 where d.job_id = $1
