-- What may be read of it. The views run with the rights of whoever reads them, so row-level security binds them too.

-- The frontend's whole knowledge (C-56, Q-05): nothing of providers, models, batches, claims or limits.
create view rewrite.status_public with (security_invoker = true) as
    select r.rewrite_request_id, r.status, r.rewrite_completed_at as completed_at, r.failure_code
      from rewrite.rewrite_requests r;

-- The same for the home of the session, as it has changed since: what a listener reads when it was poked.
create function rewrite.status_changes(p_since timestamptz)
    returns table (rewrite_request_id uuid, status text, completed_at timestamptz, failure_code varchar,
                   changed_at timestamptz)
    language sql stable security definer set search_path = pg_catalog
as $$
    select r.rewrite_request_id, r.status, r.rewrite_completed_at, r.failure_code, r.status_changed_at
      from rewrite.rewrite_requests r
     where r.home_id = rewrite.current_home() and r.status_changed_at > p_since
     order by r.status_changed_at, r.rewrite_request_id
$$;

-- The job record, by the names of its contract (Q-19 to Q-32).
create view rewrite.job_record with (security_invoker = true) as
    select d.job_id, d.rewrite_request_id, j.job_type as task, r.surface, r.rewrite_strength,
           jsonb_build_object('from', d.source_locale, 'to', d.target_locale) as language_pair,
           d.recipient_user_id, d.recipient_snapshot_id, d.recipient_preference_snapshot_id, j.status, j.created_at,
           j.updated_at, case when j.run_at > j.created_at then j.run_at end as not_before_at, j.claimed_at, j.claimed_by,
           j.attempt_count, j.max_attempts, coalesce(j.last_error_message, j.last_error_code) as last_error,
           j.last_error_at, d.routing_decision
      from rewrite.rewrite_jobs d
      join rewrite.rewrite_requests r using (rewrite_request_id)
      join penstock.jobs j on j.job_id = d.job_id;

-- The audit: one row for each move of a job, with everything that tells whose it was and how it travelled (A-77 to A-80,
-- L-61 to L-65). Built from the engine's own trail, so it holds when the job itself has been pruned.
create view rewrite.audit with (security_invoker = true) as
    select d.rewrite_request_id, d.job_id, d.home_id, d.sender_user_id, d.recipient_user_id, d.recipient_snapshot_id,
           d.recipient_preference_snapshot_id, d.source_locale, d.target_locale, d.lane,
           r.classifier_result ->> 'classifier_version' as classifier_version,
           r.classifier_result ->> 'detected_language' as detected_language,
           r.classifier_result ->> 'language_confidence' as language_confidence,
           d.routing_decision ->> 'provider' as provider,
           d.routing_decision ->> 'model' as model,
           d.routing_decision ->> 'prompt_version' as prompt_version,
           d.routing_decision ->> 'policy_version' as policy_version,
           d.routing_decision ->> 'execution_mode' as execution_mode,
           concat_ws('|', d.routing_decision ->> 'provider', d.routing_decision ->> 'model',
                     d.routing_decision ->> 'prompt_version', d.routing_decision ->> 'policy_version',
                     d.routing_decision ->> 'execution_mode', d.lane, d.source_locale, d.target_locale) as batch_group_key,
           j.provider_batch_id,                                          -- of the first submission; never changes (A-32)
           item.provider_batch_id as submission_provider_batch_id,       -- of the claim that this row tells of (C-35)
           item.batch_id, item.batch_item_index,
           e.event_id, e.at, e.from_status, e.to_status as status, e.attempt, e.claim_seq, e.run_id, e.worker_id, e.code,
           coalesce(max(e.attempt) filter (where e.to_status = 'processing') over job, 0) as attempts,
           max(e.at) filter (where e.to_status = 'queued') over job as queued_at,
           max(e.at) filter (where e.to_status = 'processing') over job as processing_at,
           max(e.at) filter (where e.to_status = 'batch_submitted') over job as batch_submitted_at,
           max(e.at) filter (where e.to_status = 'completed') over job as completed_at,
           max(e.at) filter (where e.to_status = 'failed') over job as failed_at,
           max(e.at) filter (where e.to_status = 'canceled') over job as canceled_at,
           max(e.to_status) filter (where e.to_status in ('completed', 'failed', 'canceled')) over job as final_status
      from rewrite.rewrite_jobs d
      join rewrite.rewrite_requests r using (rewrite_request_id)
      join penstock.job_events e on e.job_id = d.job_id
      left join penstock.jobs j on j.job_id = d.job_id
      left join lateral (
           select i.batch_id, i.batch_item_index, b.provider_batch_id
             from penstock.batch_items i
             join penstock.batches b on b.batch_id = i.batch_id
            where i.job_id = e.job_id and i.claim_seq = e.claim_seq
            order by b.created_at desc
            limit 1) as item on true
    window job as (partition by d.rewrite_request_id, d.job_id);
