-- Takes every right in a schema away from the public and from the roles that exist, but to look into it and to see its
-- version; returns the roles whose rights are given anew afterwards, here and by every application. An application is given
-- the four roles that it was written for: what it grants to all of them is not for a viewer. Functions of triggers are for
-- no role: on a table of its own a caller could let them write what it likes.
create or replace function penstock.clear_grants(p_schema name) returns text[]
    language plpgsql volatile
as $$
declare
    found_roles text[];
    role text;
begin
    select coalesce(array_agg(r.rolname::text order by r.rolname), '{}') into found_roles
      from pg_roles r
     where r.rolname in ('penstock_orchestrator', 'penstock_worker', 'penstock_frontend', 'penstock_operator',
                         'penstock_viewer');
    execute format('revoke all on all tables in schema %I from public', p_schema);
    execute format('revoke all on all sequences in schema %I from public', p_schema);
    execute format('revoke all on all functions in schema %I from public', p_schema);
    execute format('revoke create on schema %I from public', p_schema);
    foreach role in array found_roles loop
        execute format('revoke all on all tables in schema %I from %I', p_schema, role);
        execute format('revoke all on all sequences in schema %I from %I', p_schema, role);
        execute format('revoke all on all functions in schema %I from %I', p_schema, role);
        execute format('revoke create on schema %I from %I', p_schema, role);
        execute format('grant usage on schema %I to %I', p_schema, role);
        execute format('grant select on %I.schema_version to %I', p_schema, role);
    end loop;
    perform penstock.pin_paths(p_schema);
    return case when p_schema = 'penstock' then found_roles else array_remove(found_roles, 'penstock_viewer') end;
end
$$;

-- What each role may do. Roles belong to the cluster and are made by `penstock roles create`; this function gives those
-- that exist their rights in this database and takes away all others. It can be run again at any time, and every
-- migration ends with it. What a login of each role can and cannot do is the table of the threat model.
create or replace function penstock.apply_grants() returns text[]
    language plpgsql volatile
as $$
declare
    found_roles text[] := penstock.clear_grants('penstock');
    role text;
begin
    foreach role in array found_roles loop
        execute format('grant execute on function penstock.now(), penstock.uuid7() to %I', role);
        execute format('grant select on penstock.clock to %I', role);
    end loop;

    -- Enqueues, through the functions alone, and sees what became of its jobs; never a payload.
    if 'penstock_orchestrator' = any(found_roles) then
        grant execute on function
            penstock.put_job(text, text, text, timestamptz, interval, smallint, text, uuid, boolean, smallint),
            penstock.put_plain(text, text, uuid, text),
            penstock.put_jobs(text, uuid[], text[], text[], timestamptz, interval, smallint, text[], boolean),
            penstock.enqueue(text, jsonb, text, timestamptz, interval, integer, text, integer),
            penstock.raise_refusal(text, text), penstock.poke(text, text), penstock.check_key(text, bytea),
            penstock.lock_key(text)
            to penstock_orchestrator;
        grant select on penstock.types to penstock_orchestrator;
        grant select (job_id, job_type, status, idempotency_key, created_at, finished_at, superseded_by_job_id)
            on penstock.jobs to penstock_orchestrator;
    end if;

    -- Sees nothing of the engine; its applications give it views of their own. It checks the keys of those who come.
    if 'penstock_frontend' = any(found_roles) then
        grant execute on function penstock.check_key(text, bytea) to penstock_frontend;
    end if;

    -- Claims and records. Who a job is, what it carries and what it may cost are not a worker's to change; dead letters,
    -- spend, rates and breakers are written by functions that look at what they are given.
    if 'penstock_worker' = any(found_roles) then
        grant select on penstock.jobs, penstock.types, penstock.rates, penstock.stages, penstock.runs, penstock.workers,
            penstock.schedules, penstock.alerts, penstock.effects, penstock.dead_letters, penstock.batches,
            penstock.batch_items, penstock.spend, penstock.skips, penstock.effect_attempts, penstock.dead_letter_events,
            penstock.job_events, penstock.job_stages, penstock.kept_keys, penstock.dead_letter_overview,
            penstock.prunable_jobs, penstock.prunable_effects, penstock.batch_overview, penstock.retention,
            penstock.pending_policies to penstock_worker;
        grant update (status, stage, staged, ready, run_at, claim_seq, claimed_by, claimed_at, lease_expires_at, run_id,
                      attempt_count, reclaim_count, finished_at, updated_at, first_failure_at, last_error_at,
                      last_error_code, last_error_message, provider_batch_id) on penstock.jobs to penstock_worker;
        grant insert (job_type, policy, policy_version, stages, max_attempts, priority, audited, stale_counts_attempt,
                      max_reclaims, replayable, steps_required, dispatch, channel, max_payload_bytes, enqueue_role,
                      keep_finished, keep_keys, synced_at, breaker_after, breaker_cooldown, max_running, rate_count,
                      rate_period, key_max_running, key_rate_count, key_rate_period),
              update (policy, policy_version, stages, max_attempts, priority, audited, stale_counts_attempt, max_reclaims,
                      replayable, steps_required, dispatch, channel, max_payload_bytes, enqueue_role, keep_finished,
                      keep_keys, synced_at, breaker_after, breaker_cooldown, max_running, rate_count, rate_period,
                      key_max_running, key_rate_count, key_rate_period, paused_at, paused_by, pause_reason)
            on penstock.types to penstock_worker;
        grant insert, update on penstock.stages, penstock.runs, penstock.effects, penstock.batches, penstock.batch_items
            to penstock_worker;
        grant insert (worker_id, instance, host, pid, version, types, concurrency, started_at, heartbeat_at, stopped_at,
                      running, rss_bytes, notify, poll_seconds, process),
              update (instance, host, pid, version, types, concurrency, started_at, heartbeat_at, stopped_at, running,
                      rss_bytes, notify, poll_seconds, process) on penstock.workers to penstock_worker;
        grant insert (schedule, function, job_type, payload, cron, every, timezone, source, next_due_at),
              update (function, job_type, payload, cron, every, timezone, source, retired_at, next_due_at, last_due_at,
                      last_ran_at, missed_count, requested_at, requested_by, claimed_by, claim_seq, lease_expires_at)
            on penstock.schedules to penstock_worker;
        grant insert (kind, severity, subject), update (announced_at, announce_tries) on penstock.alerts to penstock_worker;
        grant insert (function, at, reason) on penstock.skips to penstock_worker;
        grant insert (effect_key, at, action, outcome) on penstock.effect_attempts to penstock_worker;
        grant execute on function
            penstock.put_job(text, text, text, timestamptz, interval, smallint, text, uuid, boolean, smallint),
            penstock.put_plain(text, text, uuid, text),
            penstock.put_jobs(text, uuid[], text[], text[], timestamptz, interval, smallint, text[], boolean),
            penstock.enqueue(text, jsonb, text, timestamptz, interval, integer, text, integer),
            penstock.raise_refusal(text, text), penstock.poke(text, text), penstock.lock_key(text),
            penstock.is_owner(), penstock.is_operator(), penstock.daily_cap(jsonb), penstock.note_pending(text, jsonb, text[]),
            penstock.looser_rate(integer, interval, integer, interval), penstock.keep_stored(jsonb, jsonb, text[]),
            penstock.claim_gated(text, text, interval, integer, uuid), penstock.reap(integer),
            penstock.bury(uuid, uuid, text, text, text, boolean, text, text, jsonb, integer, timestamptz, text),
            penstock.save_runs(jsonb), penstock.note_refusal(text, text),
            penstock.trip_breaker(text, text), penstock.open_breaker(text, text, interval), penstock.mend_breaker(text),
            penstock.intend(uuid, bigint, text, text, text, text, boolean, uuid),
            penstock.intent_held(penstock.effects, timestamptz), penstock.reopen_effect(text, text),
            penstock.add_spend(text, text, text, text, text, text, bigint, bigint, bigint, bigint, bigint),
            penstock.settle_items(uuid, bigint, integer[], text[], text[], timestamptz[], bigint[], bigint[], bigint[]),
            penstock.keep_keys(uuid[]), penstock.prune_jobs(uuid[]), penstock.prune_effects(text[]),
            penstock.prune_audit(bigint[], interval), penstock.prune_old(text, interval, integer)
            to penstock_worker;
    end if;

    -- Sees everything but payloads; cancels, works on dead letters, settles effects, moves gates and schedules, prunes what
    -- is old. Cannot claim, record or enqueue, and writes no evidence: what it does goes through functions that leave a trace.
    if 'penstock_operator' = any(found_roles) then
        grant select on all tables in schema penstock to penstock_operator;
        revoke all on penstock.api_keys, penstock.lock_salt, penstock.jobs, penstock.kept_keys, penstock.schedules
            from penstock_operator; -- keys are seen through penstock.list_keys, without the hashes
        grant select (job_id, created_at, updated_at, run_at, claimed_at, lease_expires_at, finished_at, first_failure_at,
                      last_error_at, claim_seq, attempt_count, max_attempts, reclaim_count, priority, ready, audited, staged,
                      status, job_type, stage, claimed_by, run_id, idempotency_key, limit_key, last_error_code,
                      last_error_message, replay_of_job_id, superseded_by_job_id, provider_batch_id)
            on penstock.jobs to penstock_operator;
        grant select (idempotency_key, job_id, kept_until) on penstock.kept_keys to penstock_operator;
        grant select (schedule, function, job_type, cron, every, timezone, source, enabled, retired_at, next_due_at,
                      last_due_at, last_ran_at, missed_count, requested_at, requested_by, claimed_by, claim_seq,
                      lease_expires_at), update (enabled, next_due_at, requested_at, requested_by)
            on penstock.schedules to penstock_operator;
        grant insert (kind, severity, subject),
              update (acknowledged_at, acknowledged_by, announced_at, announce_tries) on penstock.alerts to penstock_operator;
        grant update (cancel_asked_at, next_poll_at) on penstock.batches to penstock_operator;
        grant insert, update on penstock.types to penstock_operator;
        grant execute on function
            penstock.is_owner(), penstock.is_operator(), penstock.daily_cap(jsonb), penstock.note_pending(text, jsonb, text[]),
            penstock.cancel(uuid, text, text), penstock.close_breaker(text), penstock.poke(text, text),
            penstock.open_payload(uuid, text, text), penstock.unrecorded_openings(),
            penstock.lock_dead_letter(uuid), penstock.replay(uuid, boolean, uuid, text),
            penstock.take_step(uuid, text, text, jsonb, text, text, text, boolean, text),
            penstock.resolve_effect(text, boolean, text, jsonb), penstock.reopen_effect(text, text),
            penstock.keep_keys(uuid[]), penstock.prune_jobs(uuid[]), penstock.prune_effects(text[]),
            penstock.prune_audit(bigint[], interval), penstock.prune_old(text, interval, integer),
            penstock.set_retention(text, interval, text),
            penstock.check_key(text, bytea), penstock.list_keys(), penstock.revoke_key(text, text),
            penstock.create_key(text, bytea, text, uuid, uuid, text, text, interval) to penstock_operator;
    end if;

    -- Sees what an operator's page shows: states, times, counts and codes. No payload, no result, no text of an error.
    if 'penstock_viewer' = any(found_roles) then
        grant select (job_id, created_at, updated_at, run_at, claimed_at, lease_expires_at, finished_at, first_failure_at,
                      last_error_at, claim_seq, attempt_count, max_attempts, reclaim_count, priority, ready, audited, staged,
                      status, job_type, stage, claimed_by, run_id, idempotency_key, limit_key, last_error_code,
                      replay_of_job_id, superseded_by_job_id, provider_batch_id) on penstock.jobs to penstock_viewer;
        grant select (job_id, stage, attempts, first_failure_at, last_failure_at, finished_at) on penstock.stages
            to penstock_viewer;
        grant select (dead_letter_id, job_id, last_job_id, job_type, stage, error_class, retryable, reason, attempts,
                      first_failure_at, last_failure_at, created_at, state, cause, ticket, replay_safe, replay_count,
                      replay_job_id, escalated_at, closed_at) on penstock.dead_letters to penstock_viewer;
        grant select (event_id, dead_letter_id, at, step, operator, db_user) on penstock.dead_letter_events to penstock_viewer;
        grant select (effect_key, kind, token, job_id, claim_seq, holds_claim, state, perform_count, intended_at, settled_at,
                      done_at, adopted_by, adopted_until) on penstock.effects to penstock_viewer;
        grant select (schedule, function, job_type, cron, every, timezone, source, enabled, retired_at, next_due_at,
                      last_due_at, last_ran_at, missed_count, requested_at, requested_by, claimed_by, lease_expires_at)
            on penstock.schedules to penstock_viewer;
        grant select (event_id, at, db_user, actor, action, subject) on penstock.operator_events to penstock_viewer;
        grant select on penstock.types, penstock.rates, penstock.runs, penstock.skips, penstock.workers, penstock.alerts,
            penstock.effect_attempts, penstock.batches, penstock.batch_items, penstock.batch_overview, penstock.spend,
            penstock.job_events, penstock.retention, penstock.pending_policies to penstock_viewer;
    end if;
    return found_roles;
end
$$;
