-- What each role may do with this application, as penstock.apply_grants() says it for the engine: what is not given here
-- is taken away, and it can be run again at any time.
create function rewrite.apply_grants() returns text[]
    language plpgsql volatile
as $$
declare
    found_roles text[] := penstock.clear_grants('rewrite');
    role text;
begin
    foreach role in array found_roles loop
        execute format('grant execute on function rewrite.current_home() to %I', role);
    end loop;

    -- Takes messages: knows who lives where and what they wish, freezes it, enqueues, hands out what came of it (L-18).
    if 'penstock_orchestrator' = any(found_roles) then
        grant select, insert on rewrite.homes, rewrite.home_keys, rewrite.users, rewrite.home_members, rewrite.preferences,
            rewrite.recipient_snapshots, rewrite.recipient_snapshot_members, rewrite.recipient_preference_snapshots,
            rewrite.rewrite_requests, rewrite.rewrite_jobs to penstock_orchestrator;
        grant update (locale_raw) on rewrite.users to penstock_orchestrator;
        grant update (tone, blocked_terms, updated_at) on rewrite.preferences to penstock_orchestrator;
        grant delete on rewrite.home_members, rewrite.preferences to penstock_orchestrator;
        grant update (status, failure_code, sender_reveal_at) on rewrite.rewrite_requests to penstock_orchestrator;
        grant select on rewrite.rewrite_outputs, rewrite.status_public to penstock_orchestrator;
        grant execute on function rewrite.is_plain(jsonb, text[]), rewrite.status_changes(timestamptz),
            rewrite.report_unavailable(uuid, text) to penstock_orchestrator;
    end if;

    -- Executes: reads what was frozen, fills the slot, ends the request. Of people and of what they wish today it sees
    -- nothing, and the time of the reveal is none of its business (A-69, A-72, L-17, L-22, L-60).
    if 'penstock_worker' = any(found_roles) then
        grant select (rewrite_request_id, home_id, sender_user_id, recipient_user_id, recipient_snapshot_id,
                      recipient_preference_snapshot_id, surface, rewrite_strength, source_locale, target_locale, lane,
                      classifier_result, rewrite_request, status, failure_code, created_at, status_changed_at,
                      rewrite_completed_at),
              update (status, rewrite_completed_at) on rewrite.rewrite_requests to penstock_worker;
        grant select on rewrite.rewrite_jobs, rewrite.home_keys to penstock_worker;
        grant select (recipient_preference_snapshot_id, home_id, user_id, tone, blocked_terms, created_at)
            on rewrite.recipient_preference_snapshots to penstock_worker;
        grant select, insert on rewrite.rewrite_outputs, rewrite.evaluation_failures to penstock_worker;
        grant execute on function rewrite.unit_lock(uuid, uuid), rewrite.is_plain(jsonb, text[]) to penstock_worker;
    end if;

    -- Shows how requests stand, and knows no more than that (Q-05, C-56).
    if 'penstock_frontend' = any(found_roles) then
        grant select (rewrite_request_id, status, rewrite_completed_at, failure_code) on rewrite.rewrite_requests
            to penstock_frontend;
        grant select on rewrite.status_public to penstock_frontend;
        grant execute on function rewrite.status_changes(timestamptz) to penstock_frontend;
    end if;

    -- Sees how things went in one home at a time, sums over all of them, and no text; erases homes and renews keys.
    if 'penstock_operator' = any(found_roles) then
        grant select (rewrite_request_id, home_id, sender_user_id, recipient_user_id, recipient_snapshot_id,
                      recipient_preference_snapshot_id, surface, rewrite_strength, source_locale, target_locale,
                      source_locale_raw, target_locale_raw, lane, classifier_result, status, failure_code, created_at,
                      status_changed_at, rewrite_completed_at, sender_reveal_at) on rewrite.rewrite_requests
            to penstock_operator;
        grant select (rewrite_request_id, recipient_user_id, home_id, job_id, output_locale, eval_version, lexicon_version,
                      provider_item_completed_at, created_at) on rewrite.rewrite_outputs to penstock_operator;
        grant select (home_id, key_id, created_at, rewrapped_at) on rewrite.home_keys to penstock_operator;
        grant select on rewrite.homes, rewrite.recipient_snapshots, rewrite.recipient_snapshot_members, rewrite.rewrite_jobs,
            rewrite.evaluation_failures, rewrite.status_public, rewrite.job_record, rewrite.audit to penstock_operator;
        grant execute on function
            rewrite.cost_by_pair(date, date), rewrite.failures_by_pair(timestamptz, timestamptz),
            rewrite.eval_regressions(timestamptz, timestamptz), rewrite.incidents(text, timestamptz, timestamptz),
            rewrite.key_usage(), rewrite.keys_to_rewrap(text, uuid, integer), rewrite.rewrap(uuid, bytea, text, bytea),
            rewrite.forget_home(uuid), rewrite.cancel_open_jobs(uuid, text, integer), rewrite.erase_files(uuid)
            to penstock_operator;
    end if;
    return found_roles;
end
$$;
