-- The engine's jobs stay; what this application hung on them goes first.
drop trigger rewrite_begin_job on penstock.jobs;
drop trigger rewrite_unit_lock on penstock.jobs;
drop trigger rewrite_end_job on penstock.jobs;
drop view rewrite.audit, rewrite.job_record, rewrite.status_public;
drop function rewrite.apply_grants(), rewrite.status_changes(timestamptz), rewrite.cost_by_pair(date, date),
    rewrite.failures_by_pair(timestamptz, timestamptz), rewrite.eval_regressions(timestamptz, timestamptz),
    rewrite.incidents(text, timestamptz, timestamptz), rewrite.key_usage(), rewrite.keys_to_rewrap(text, uuid, integer),
    rewrite.rewrap(uuid, bytea, text, bytea), rewrite.forget_home(uuid), rewrite.cancel_open_jobs(uuid, text, integer),
    rewrite.erase_files(uuid), rewrite.report_unavailable(uuid, text);
drop table rewrite.evaluation_failures, rewrite.rewrite_outputs, rewrite.rewrite_jobs, rewrite.rewrite_requests,
    rewrite.recipient_preference_snapshots, rewrite.recipient_snapshot_members, rewrite.recipient_snapshots,
    rewrite.preferences, rewrite.home_members, rewrite.users, rewrite.home_keys, rewrite.homes;
drop function rewrite.end_job(), rewrite.await_output(), rewrite.lock_unit(),
    rewrite.begin_job(), rewrite.unit_lock(uuid, uuid), rewrite.tell_status(), rewrite.refuse_hollow_request(),
    rewrite.guard_request(), rewrite.begin_request(), rewrite.refuse_erased_home(), rewrite.refuse_change(),
    rewrite.is_plain(jsonb, text[]), rewrite.current_home();
